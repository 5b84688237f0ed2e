// SPDX-License-Identifier: Apache-2.0
// The form of a family in Hugging Face's libraries, for import and export: names, shapes and
// config.json. launch/exchange reads and writes the files.
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

// One of our tensors, and the Hugging Face tensors whose rows it concatenates; zeros if there are
// none.
struct NamePair {
  std::string ours;
  std::vector<HfTensor> hf;
  // Hugging Face's Conv1D has (in, out), our linear layers (out, in); of experts each has. Only
  // with a single tensor.
  bool transposed = false;
  // Our additional rows: the vocabulary is padded. No token or loss uses them.
  std::int64_t padding_rows = 0;
  // Hugging Face has (out, in, height, width), we have (out, height, width, in). Only with a single
  // tensor.
  bool filters = false;
  // Hugging Face interleaves gates and values of an expert's outputs; we store all gates, then all
  // values. Only with a single tensor.
  bool interleaved = false;
  Shape our_shape{};  // if it does not follow from hf: the same values in another shape
  // A tensor of our shape that some files have instead; its name is empty if there is none.
  HfTensor fused{};
};

// Shared by families that name layers by kind: their lists are made by a class of it.
class NameList {
 protected:
  void add(std::string ours, std::string hf, const Shape& shape) {
    pairs_.push_back({.ours = std::move(ours), .hf = {{std::move(hf), shape}}});
  }
  // Weight and bias; of a norm if the weight has one extent.
  void linear(const std::string& ours, const std::string& hf, const Shape& weight) {
    add(ours + ".weight", hf + ".weight", weight);
    add(ours + ".bias", hf + ".bias", {weight[0]});
  }
  // Our single matrix of queries, keys and values, each (hidden, hidden), with its bias.
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

// A model's names of the parts of a mixture of experts, behind "model.layers.0.".
struct ExpertNames {
  std::string_view router, experts;          // "mlp.gate.", "mlp.experts."
  std::string_view gates, values, contract;  // of an expert: "gate_proj" ...
  std::string_view shared = "mlp.shared_experts.";
  // All experts' gates and values, interleaved, are one tensor (experts, in, out) that `gates`
  // names, the other matrices another, with biases.
  bool stacked = false;
};
inline constexpr ExpertNames mixtral_experts{"block_sparse_moe.gate.", "block_sparse_moe.experts.",
                                             "w1", "w3", "w2"};
inline constexpr ExpertNames qwen_experts{"mlp.gate.", "mlp.experts.", "gate_proj", "up_proj",
                                          "down_proj"};
inline constexpr ExpertNames gpt_oss_experts{
    "mlp.router.", "mlp.experts.", "gate_up_proj", "", "down_proj", "", true};

// For models with rotary positions and a gated MLP: the names of Llama and its relatives.
[[nodiscard]] std::vector<NamePair> decoder_names(const TransformerOptions& model,
                                                  const ExpertNames& experts = qwen_experts);

struct Exchange {
  // Every tensor, in chain order.
  std::vector<NamePair> (*names)(const ModelConfig& model) = nullptr;
  // The config.json of the model for transformers. Raises ExitCode::config if transformers has no
  // such model.
  std::string (*config_json)(const ModelConfig& model) = nullptr;
  // A Hugging Face name as in `names`, without the prefix that some files add; nothing for tensors
  // that are not our parameters.
  std::optional<std::string> (*plain_name)(std::string_view hf, const ModelConfig& model) = nullptr;
  // Their model_types of this family, and the import of such a config.json. Raises ExitCode::config
  // for an unsupported setting.
  std::span<const std::string_view> types{};
  void (*read)(const HfKeys& keys, std::string_view type, ModelConfig& model) = nullptr;
  // Resolves every "auto", and picks one value among those that mean the same function of the same
  // weights; null: nothing to do.
  void (*canonicalize)(ModelConfig& model) = nullptr;
  // Their names of the token table, and of the head that may be tied to it; empty: no tokens.
  std::string_view tokens{}, head{};
  // Their batch counters of running statistics, i64 scalars; null: none.
  std::vector<std::string> (*counters)(const ModelConfig& model) = nullptr;
  // Instead of `tokens` and `head`, where they depend on the model.
  std::pair<std::string_view, std::string_view> (*tied)(const ModelConfig& model) = nullptr;
};

// Of a family that Hugging Face's libraries lack.
inline constexpr Exchange no_exchange{};

}  // namespace trireme::hugging_face
