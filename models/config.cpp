// SPDX-License-Identifier: Apache-2.0
#include "models/config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "models/registry.h"
#include "runtime/config/key_table.h"

namespace trireme {

const config::KeyTable& key_table() {
  static const config::KeyTable table = [] {
    std::vector<config::ModelFamily> known;
    for (const Family& family : families())
      known.push_back(family.keys);
    return config::KeyTable(std::move(known));
  }();
  return table;
}

Config default_config() {
  return key_table().defaults();
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   Provenance* where) {
  return load_config(key_table(), path, overrides, where);
}

Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides, Provenance* where) {
  return parse_config(key_table(), text, name, overrides, where);
}

Config resolve_config(Config config, const Environment& environment, const Provenance* where,
                      Purpose purpose) {
  return resolve_config(key_table(), std::move(config), environment, where, purpose);
}

std::string to_yaml(const Config& config, const Provenance* where) {
  return to_yaml(key_table(), config, where);
}

std::string requested_yaml(const Config& config, const Provenance& where) {
  return requested_yaml(key_table(), config, where);
}

KeyValues values_by_key(const Config& config) {
  return values_by_key(key_table(), config);
}

KeyValues under_current_keys(const KeyValues& values) {
  return under_current_keys(key_table(), values);
}

std::vector<FieldDoc> field_docs() {
  return field_docs(key_table());
}

std::string field_table_markdown() {
  return field_table_markdown(key_table());
}

namespace {

ModelConfig canonical(ModelConfig model) {
  if (const auto canonicalize = family_of(model).exchange->canonicalize) canonicalize(model);
  return model;
}

}  // namespace

std::vector<FunctionDifference> function_differences(const ModelConfig& ours,
                                                     const ModelConfig& theirs) {
  if (ours.family != theirs.family) return {{"model.family", ours.family, theirs.family}};
  Config left = default_config(), right = default_config();
  left.model = canonical(ours);
  right.model = canonical(theirs);
  const KeyValues wanted = values_by_key(left), found = values_by_key(right);
  std::vector<FunctionDifference> differences;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto& [key, value] = wanted[i];
    if (value != found[i].second && key_table().find(key)->effect() == config::Effect::function)
      differences.push_back({key, value, found[i].second});
  }
  return differences;
}

bool is_head_key(std::string_view key) {
  constexpr std::array<std::string_view, 4> keys{"model.classes", "model.head", "model.targets",
                                                 "model.tied_head"};
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace trireme
