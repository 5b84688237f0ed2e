// SPDX-License-Identifier: Apache-2.0
// runtime/config/config.h for the model families of this program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/model_config.h"

namespace trireme {

// All keys, including those of the families.
[[nodiscard]] const config::KeyTable& key_table();

[[nodiscard]] Config default_config();
[[nodiscard]] Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                                 Provenance* where = nullptr);
[[nodiscard]] Config parse_config(const std::string& text, const std::string& name,
                                  const std::vector<std::string>& overrides,
                                  Provenance* where = nullptr);
[[nodiscard]] Config resolve_config(Config config, const Environment& environment,
                                    const Provenance* where = nullptr,
                                    Purpose purpose = Purpose::train);
[[nodiscard]] std::string to_yaml(const Config& config, const Provenance* where = nullptr);
[[nodiscard]] std::string requested_yaml(const Config& config, const Provenance& where);
[[nodiscard]] KeyValues values_by_key(const Config& config);
[[nodiscard]] KeyValues under_current_keys(const KeyValues& values);
[[nodiscard]] std::vector<FieldDoc> field_docs();
[[nodiscard]] std::string field_table_markdown();

// Whether equal weights compute the same function in two models.
struct FunctionDifference {
  std::string key, ours, theirs;  // "model.rope_theta" and both values
};

// The keys that make the same weights compute another function in `ours` than in `theirs`. Ignores
// keys that only training reads, and the context if positions are rotary.
[[nodiscard]] std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                                   const ModelConfig& theirs);
// Whether the key only changes the head, which may start anew.
[[nodiscard]] bool is_head_key(std::string_view key);

}  // namespace trireme
