// SPDX-License-Identifier: Apache-2.0
// What a family tells of its form in Hugging Face's libraries, both ways: names, shapes and
// config.json. Files are read and written in launch/checkpoint.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/transformer/transformer.h"
#include "runtime/config/model_config.h"

namespace trireme {
class HfKeys;
}

namespace trireme::hugging_face {

struct HfTensor {
  std::string name;  // "h.0.attn.c_attn.weight"
  Shape shape{};
};

// One tensor of ours, and the Hugging Face tensors whose rows it concatenates.
struct NamePair {
  std::string ours;
  std::vector<HfTensor> hf;
  // Hugging Face's Conv1D has (in, out), our linear layers (out, in). Only with a single tensor.
  bool transposed = false;
  // Rows that we have more than they: the vocabulary is padded. No token and no loss reaches them.
  std::int64_t padding_rows = 0;
  // Hugging Face has (out, in, height, width), ours is (out, height, width, in). Only with a
  // single tensor.
  bool filters = false;
  Shape our_shape{};  // where it does not follow from hf: the same values otherwise counted
};

// What the families whose layers are told apart by name have in common: their lists are made by a
// class of it.
class NameList {
 protected:
  void add(std::string ours, std::string hf, const Shape& shape) {
    pairs_.push_back({.ours = std::move(ours), .hf = {{std::move(hf), shape}}});
  }
  // Weight and bias; of a norm where the weight has one extent.
  void linear(const std::string& ours, const std::string& hf, const Shape& weight) {
    add(ours + ".weight", hf + ".weight", weight);
    add(ours + ".bias", hf + ".bias", {weight[0]});
  }
  // Our one matrix of queries, keys and values, each (hidden, hidden), and its bias.
  void qkv(const std::string& ours, const std::string& hf, std::int64_t hidden) {
    for (const auto& [part, shape] :
         {std::pair{".weight", Shape{hidden, hidden}}, {".bias", Shape{hidden}}}) {
      pairs_.push_back({.ours = ours + part,
                        .hf = {{hf + "query" + part, shape},
                               {hf + "key" + part, shape},
                               {hf + "value" + part, shape}}});
    }
  }

  std::vector<NamePair> pairs_;
};

// Of a model with rotary positions and a gated MLP, as Llama and what is built like it call them.
[[nodiscard]] std::vector<NamePair> decoder_names(const TransformerOptions& model);

struct Exchange {
  // Every tensor, in chain order.
  std::vector<NamePair> (*names)(const ModelConfig& model);
  // config.json of the same model: what transformers needs to know beside the weights. Raises
  // ExitCode::config for a model that transformers has no kind for.
  std::string (*config_json)(const ModelConfig& model);
  // A Hugging Face name as it stands in `names`, without the prefix that some files add;
  // nothing for tensors that are not parameters of ours.
  std::optional<std::string> (*plain_name)(std::string_view hf, const ModelConfig& model);
  // Their model_types of this family, and config.json of one of these as a model of ours. Raises
  // ExitCode::config for a setting that we do not have.
  std::span<const std::string_view> types;
  void (*read)(const HfKeys& keys, std::string_view type, ModelConfig& model);
  // Puts every "auto" in its place, and one value wherever any of several means the same function
  // of the same weights; null: there is nothing to do.
  void (*spell)(ModelConfig& model);
  // Where they keep the token table, and the head that may be tied to it; empty: no tokens.
  std::string_view tokens, head;
  // Their counters of the batches that running statistics have seen, i64 scalars; null: none.
  std::vector<std::string> (*counters)(const ModelConfig& model) = nullptr;
};

}  // namespace trireme::hugging_face
