// SPDX-License-Identifier: Apache-2.0
#include "models/transformer/hf_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

// Keys on a file's origin, sampling, initialisation, training, execution and outputs, or of heads
// that no model here has: they do not change what the weights compute.
constexpr std::array<std::string_view, 92> harmless = {
    // of the file
    "model_type", "architectures", "transformers_version", "_name_or_path", "name_or_path",
    "_commit_hash", "torch_dtype", "dtype", "transformers.js_config", "is_llama_config",
    "unsloth_version", "unsloth_fixed", "_from_model_config", "tokenizer_class", "model_max_length",
    "max_sequence_length",
    // of texts
    "bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id",
    "forced_bos_token_id", "forced_eos_token_id", "prefix", "task_specific_params", "max_length",
    "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
    "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
    "num_return_sequences", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens",
    // of training
    "router_aux_loss_coef", "output_router_logits", "initializer_range", "attention_dropout",
    "attn_pdrop", "attention_probs_dropout_prob", "summary_first_dropout", "classifier_dropout",
    "gradient_checkpointing", "pretraining_tp",
    // of passes and outputs
    "use_cache", "use_bfloat16", "chunk_size_feed_forward", "reorder_and_upcast_attn",
    "_attn_implementation", "attn_implementation", "_attn_implementation_autoset",
    "_flash_attn_2_enabled", "return_dict", "return_dict_in_generate", "output_attentions",
    "output_hidden_states", "output_scores", "output_past", "torchscript", "tf_legacy_loss",
    "tie_encoder_decoder", "cross_attention_hidden_size",
    // of other heads
    "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "finetuning_task",
    "summary_activation", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "pooler_act", "pooler_output_size", "pooler_fc_size", "pooler_num_attention_heads",
    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type", "directionality"};

// The value that all models here implement.
struct Neutral {
  std::string_view key, value;  // in JSON
};
constexpr std::array neutral = {
    Neutral{"is_encoder_decoder", "false"},
    Neutral{"is_decoder", "false"},
    Neutral{"add_cross_attention", "false"},
    Neutral{"pruned_heads", "{}"},
    Neutral{"per_layer_config", "{}"},
    Neutral{"use_sliding_window", "false"},
    Neutral{"use_mrope", "false"},
    Neutral{"rope_interleaved", "false"},
    Neutral{"partial_rotary_factor", "1.0"},
    Neutral{"attention_bias", "false"},
    Neutral{"mlp_bias", "false"},
    Neutral{"scale_attn_weights", "true"},
    Neutral{"scale_attn_by_inverse_layer_idx", "false"},
    Neutral{"position_embedding_type", "\"absolute\""},
    Neutral{"truncate", "true"},
    Neutral{"router_jitter_noise", "0.0"},
};

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t limit = 100;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > limit) text = text.substr(0, limit) + "...";
  return text;
}

}  // namespace

HfKeys::HfKeys(const Json& object, std::string path, std::string where)
    : object_(object), path_(std::move(path)), where_(std::move(where)) {}

const nlohmann::json* HfKeys::find(std::string_view key) const {
  ignore(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool HfKeys::has(std::string_view key) const {
  return object_.contains(key);
}

std::string HfKeys::text(std::string_view key, const std::string& otherwise) const {
  const Json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, "not a string");
  return value->get<std::string>();
}

bool HfKeys::flag(std::string_view key, bool otherwise) const {
  const Json* const value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, "neither true nor false");
  return value->get<bool>();
}

double HfKeys::number(std::string_view key, double otherwise) const {
  return find(key) == nullptr ? otherwise : number(key);
}

double HfKeys::number(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_number()) refuse(key, "not a number");
  return value->get<double>();
}

std::int64_t HfKeys::size(std::string_view key) const {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_number_integer()) refuse(key, "not a whole number");
  return value->get<std::int64_t>();
}

std::int64_t HfKeys::size_or(std::string_view key, std::int64_t missing) const {
  if (!has(key)) return missing;
  return find(key) == nullptr ? 0 : size(key);
}

void HfKeys::expect(std::string_view key, const Json& wanted, std::string_view ours) const {
  const Json* const value = find(key);
  if (value != nullptr && *value != wanted)
    fail(ExitCode::config, "{}: {}{} is {}, {} needs {}", path_, where_, key, shown(*value), ours,
         wanted.dump());
}

void HfKeys::refuse(std::string_view key, std::string_view what) const {
  const auto found = object_.find(key);
  fail(ExitCode::config, "{}: {}{} is {}, {}", path_, where_, key,
       found == object_.end() ? "missing" : shown(*found), what);
}

void HfKeys::expect_nothing_else() const {
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null() || read_.contains(key) ||
        std::ranges::find(harmless, key) != harmless.end())
      continue;
    const auto known = std::ranges::find(neutral, key, &Neutral::key);
    if (known == neutral.end())
      refuse(key,
             "but its effect on a model is not known here; remove it from the file if it has none");
    if (value != parse_json(known->value))
      refuse(key, fmt::format("but models here support only {}", known->value));
  }
}

namespace hugging_face {

ops::ActivationKind read_activation(const HfKeys& keys, const char* key, const char* missing) {
  const std::string name = keys.text(key, missing);
  std::string known;
  for (const auto& named : activation_names) {
    if (named.name == name) return named.value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", named.name);
  }
  keys.refuse(key, fmt::format("supported are {}", known));
}

GeluForm read_gelu(const HfKeys& keys) {
  const ops::ActivationKind kind = read_activation(keys, "hidden_act", "gelu");
  for (const auto& form : names_of(GeluForm{})) {
    if (activation_of(form.value) == kind) return form.value;
  }
  keys.refuse("hidden_act", "supported are gelu, gelu_new and gelu_pytorch_tanh");
}

void expect_silu(const HfKeys& keys, std::string_view ours) {
  if (keys.text("hidden_act") != "swish") keys.expect("hidden_act", "silu", ours);
}

double read_balance_loss(const HfKeys& keys, std::int64_t slots, std::int64_t routed_layers) {
  if (routed_layers == 0 || !keys.flag("output_router_logits", false)) return 0;
  return keys.number("router_aux_loss_coef", 0.001) * static_cast<double>(slots) /
         static_cast<double>(routed_layers);
}

namespace {
std::string_view layer_type(std::int64_t index, std::int64_t global_every) {
  return global_every > 0 && (index + 1) % global_every == 0 ? global_layer : local_layer;
}
}  // namespace

std::string layer_types(std::int64_t layers, std::int64_t global_every) {
  std::string list;
  for (std::int64_t i = 0; i < layers; ++i)
    list += fmt::format("{}\"{}\"", i > 0 ? ", " : "", layer_type(i, global_every));
  return list;
}

std::int64_t read_global_every(const HfKeys& keys, std::int64_t layers, std::int64_t missing) {
  const HfKeys::Json* const types = keys.find("layer_types");
  if (types == nullptr) return missing;
  const bool listed = types->is_array() && std::ssize(*types) == layers;
  const auto first =
      listed ? std::find(types->begin(), types->end(), HfKeys::Json(global_layer)) : types->end();
  const std::int64_t every = listed && first != types->end() ? first - types->begin() + 1 : 0;
  HfKeys::Json wanted = HfKeys::Json::array();
  for (std::int64_t i = 0; listed && i < layers; ++i)
    wanted.push_back(layer_type(i, every));
  if (!listed || *types != wanted)
    keys.refuse("layer_types", fmt::format("not a list of {} times sliding_attention with every "
                                           "N-th full_attention, the only supported order",
                                           layers));
  return every;
}

}  // namespace hugging_face
}  // namespace trireme
