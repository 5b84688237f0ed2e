// SPDX-License-Identifier: Apache-2.0
// BERT (Devlin et al., 2019) for masked language modelling: token, position and token type
// embeddings with a norm, post-norm blocks without a causal mask, and a head with one more layer, a
// norm and the token table with a bias. Samples have one segment (the first token type).
// Initialisation as for gpt/gpt.h. RoBERTa (Liu et al., 2019) is one whose positions start at
// position_offset.
#pragma once

#include "models/transformer/activation_names.h"
#include "models/transformer/transformer.h"
#include "runtime/config/key_table.h"

namespace trireme {

namespace hugging_face {
struct Exchange;
[[nodiscard]] const Exchange& bert_exchange();
}  // namespace hugging_face

inline constexpr std::string_view bert_name = "bert";

// Keys of the model section for family bert; documented in bert.cpp. 0 means "auto" or "off".
struct BertOptions {
  std::int64_t layers = 4;
  std::int64_t hidden = 256;
  std::int64_t heads = 4;
  std::int64_t intermediate = 0;
  std::int64_t context = 256;
  std::int64_t vocabulary = 256;
  double dropout = 0;
  double init_std = 0.02;
  PositionInit position_init = PositionInit::normal;
  std::int64_t position_offset = 0;
  double norm_epsilon = 1e-5;
  GeluForm gelu = GeluForm::exact;
  std::int64_t token_types = 2;
  std::int64_t mask_token = 0;
  double mask_probability = 0.15;
  HeadKind head = HeadKind::automatic;
  std::int64_t classes = 1000;
  std::int64_t targets = 4;
  std::int64_t pad_token = 0;
  friend bool operator==(const BertOptions&, const BertOptions&) = default;
};

[[nodiscard]] TransformerOptions transformer_options(const BertOptions& options);

[[nodiscard]] config::ModelFamily bert_family();

}  // namespace trireme
