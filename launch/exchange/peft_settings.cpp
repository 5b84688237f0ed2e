// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/peft_settings.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

// Settings that say nothing of what the adapter computes, or that its tensors show.
constexpr std::string_view known_settings =
    " peft_type task_type auto_mapping peft_version base_model_name_or_path revision"
    " inference_mode r target_modules modules_to_save exclude_modules lora_alpha lora_dropout "
    "fan_in_fan_out"
    " use_rslora layers_to_transform layers_pattern megatron_core eva_config qalora_group_size"
    " runtime_config init_lora_weights bias ensure_weight_tying ";

bool is_neutral(const nlohmann::json& value) {
  return value.is_null() || value == false ||
         ((value.is_object() || value.is_array()) && value.empty());
}

}  // namespace

nlohmann::json read_peft_json(const std::string& path) {
  constexpr std::size_t config_limit = 1 << 20;
  const auto text = read_file_if_exists(path, config_limit, ExitCode::config);
  if (!text) fail(ExitCode::config, "{}: does not exist; it describes the adapter", path);
  auto json = json_or_discarded<nlohmann::json>(*text);
  if (!json.is_object()) fail(ExitCode::config, "{}: is not a JSON object", path);
  return json;
}

std::vector<std::string> peft_texts(const HfKeys& keys, const char* key) {
  const nlohmann::json* const value = keys.find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array() || !std::ranges::all_of(*value, &nlohmann::json::is_string))
    keys.refuse(key, "not a list of texts");
  return value->get<std::vector<std::string>>();
}

namespace {

// PCRE2 bounds the work of a match, whatever the pattern.
bool matches_whole(const HfKeys& keys, const char* key, const std::string& pattern,
                   const std::string& text) {
  int error = 0;
  std::size_t at = 0;
  const auto bytes = [](const std::string& of) { return reinterpret_cast<PCRE2_SPTR>(of.data()); };
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(bytes(pattern), pattern.size(), 0, &error, &at, nullptr), pcre2_code_free);
  if (code == nullptr) keys.refuse(key, "no regular expression; list the modules");
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const int result = pcre2_match(code.get(), bytes(text), text.size(), 0,
                                 PCRE2_ANCHORED | PCRE2_ENDANCHORED, found.get(), nullptr);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH)
    keys.refuse(key, "a regular expression that takes too long; list the modules");
  return result >= 0;
}

// peft matches a text as a regular expression, and each of a list as the end of a name.
bool names_module(const HfKeys& keys, const char* key, const std::string& module) {
  const nlohmann::json* const value = keys.find(key);
  const std::vector<std::string> texts = peft_texts(keys, key);
  if (value == nullptr || !value->is_string())
    return std::ranges::any_of(texts, [&](const std::string& text) {
      return module == text || module.ends_with("." + text);
    });
  return texts.front() == "all-linear" || matches_whole(keys, key, texts.front(), module);
}

// Whether peft would adapt it by layers_to_transform: in "model.layers.3.mlp" layer 3.
bool is_layer_adapted(const HfKeys& keys, const std::string& module) {
  const nlohmann::json* const layers = keys.find("layers_to_transform");
  if (layers == nullptr || (layers->is_array() && layers->empty())) return true;
  std::string list;  // "layers"
  std::istringstream parts(module);
  for (std::string part; std::getline(parts, part, '.'); list = part) {
    if (part.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto patterns = peft_texts(keys, "layers_pattern");
    const bool in_list = patterns.empty() || std::ranges::find(patterns, list) != patterns.end();
    const auto is = [&](const nlohmann::json& item) { return item.dump() == part; };
    return in_list && (layers->is_array() ? std::ranges::any_of(*layers, is) : is(*layers));
  }
  return false;
}

}  // namespace

void require_chosen(const HfKeys& keys, const std::string& module, const std::string& tensor) {
  const std::string but = fmt::format("but the adapter holds {}", tensor);
  if (keys.find("target_modules") != nullptr && !names_module(keys, "target_modules", module))
    keys.refuse("target_modules", but);
  if (names_module(keys, "exclude_modules", module)) keys.refuse("exclude_modules", but);
  if (!is_layer_adapted(keys, module)) keys.refuse("layers_to_transform", but);
}

LoraConfig read_adapter_config(const HfKeys& keys, const nlohmann::json& json) {
  const std::string& path = keys.path();
  if (keys.text("peft_type") != "LORA") keys.refuse("peft_type", "only LORA is supported");
  if (keys.text("bias", "none") != "none")
    keys.refuse("bias", "which is not supported; train the adapter with bias=\"none\"");
  for (const auto& [key, value] : json.items()) {
    const bool known = known_settings.find(" " + key + " ") != known_settings.npos;
    if (!known && !is_neutral(value))
      keys.refuse(key,
                  "which is not supported; merge the adapter by merge_and_unload() and import the "
                  "whole model");
  }
  const nlohmann::json* const init = keys.find("init_lora_weights");
  if (init != nullptr && init->is_string() && *init != "gaussian" && *init != "orthogonal" &&
      *init != "eva")
    keys.refuse("init_lora_weights",
                "which changes the base: save with path_initial_model_for_weight_conversion, or "
                "import the merged model");
  LoraConfig lora{.rank = keys.size("r"),
                  .alpha = keys.number("lora_alpha"),
                  .rslora = keys.flag("use_rslora", false),
                  .dropout = keys.number("lora_dropout", 0.0),
                  .targets = {},
                  .modules_to_save = {}};
  if (lora.rank < 1 || lora.alpha <= 0)
    fail(ExitCode::config, "{}: r: {} and lora_alpha: {} must be above 0", path, lora.rank,
         lora.alpha);
  return lora;
}

}  // namespace trireme
