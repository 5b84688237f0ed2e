// SPDX-License-Identifier: Apache-2.0
// Our GPT-2 in the names and the form of Hugging Face's GPT2LMHeadModel, both ways.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/gpt/gpt.h"
#include "runtime/base/shape.h"

namespace trireme::hugging_face {

// One tensor in both worlds.
struct NamePair {
  std::string ours;
  std::string theirs;  // "h.0.attn.c_attn.weight"
  // Their Conv1D has (in, out), our linear layers (out, in).
  bool transposed = false;
  Shape shape{};  // theirs
  // Rows that we have more than they: the vocabulary is padded. No token and no loss reaches them.
  std::int64_t padding_rows = 0;
};

// Every tensor of a GPT of this config, in chain order.
[[nodiscard]] std::vector<NamePair> gpt2_names(const GptOptions& model);

// config.json of the same model: what transformers needs to know beside the weights.
[[nodiscard]] std::string gpt2_config_json(const GptOptions& model);

// A name of theirs without what some files put before all names ("transformer."); nothing for
// tensors that are not parameters of ours: masks, and the head, which is tied to the tokens.
[[nodiscard]] std::optional<std::string> plain_name(std::string_view theirs);

}  // namespace trireme::hugging_face
