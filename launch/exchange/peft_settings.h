// SPDX-License-Identifier: Apache-2.0
// adapter_config.json of Hugging Face's peft. Errors are ExitCode::config and name file and key.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/transformer/hf_keys.h"
#include "runtime/config/config.h"

namespace trireme {

// The whole file, an object.
[[nodiscard]] nlohmann::json read_peft_json(const std::string& path);
// A list of texts, or one of them; empty if it is missing or null.
[[nodiscard]] std::vector<std::string> peft_texts(const HfKeys& keys, const char* key);
// Refuses a factor that peft would not read: it adapts only what target_modules, exclude_modules
// and layers_to_transform choose.
void require_chosen(const HfKeys& keys, const std::string& module, const std::string& tensor);
// All but the targets, which the tensors show. Refuses settings that we lack.
[[nodiscard]] LoraConfig read_adapter_config(const HfKeys& keys, const nlohmann::json& json);

}  // namespace trireme
