// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "models/config.h"
#include "models/function_differences.h"
#include "models/registry.h"
#include "models/transformer/hf_keys.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/config/rules/rules.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t size_limit = std::uint64_t{1} << 24;

Json read(const std::string& path) {
  try {
    Json object = parse_json(read_whole_file(path, size_limit, ExitCode::checkpoint));
    if (object.is_object()) return object;
    fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  } catch (const Json::exception& error) {
    fail(ExitCode::checkpoint, "{}: is not a JSON object: {}", path, error.what());
  }
}

void read_model(const HfKeys& keys, const std::string& type, ModelConfig& model) {
  std::vector<std::string_view> known;
  for (const Family& family : families()) {
    const auto& types = family.exchange->types;
    if (std::ranges::find(types, type) != types.end())
      return family.exchange->read(keys, type, model);
    known.insert(known.end(), types.begin(), types.end());
  }
  fail(ExitCode::config, "{}: model_type is {}; weights of {} models can be imported", keys.path(),
       type.empty() ? "missing" : fmt::format("\"{}\"", type), fmt::join(known, ", "));
}

}  // namespace

ModelConfig model_of_hf_config(const std::string& path) {
  const Json object = read(path);
  const HfKeys keys(object, path);
  const std::string type = keys.text("model_type");
  ModelConfig model;
  read_model(keys, type, model);
  keys.expect_nothing_else();
  // Applies the limits of our keys, and the rules between them.
  Config config = default_config();
  config.model = model;
  config = parse_config(to_yaml(config), path + " as a config of ours", {});
  const Environment environment;
  const Provenance where;
  const config::Subject subject{key_table(), config, environment, where, Purpose::generate};
  subject.family().check(subject);
  return model;
}

void check_hf_config(const std::string& path, const ModelConfig& model) {
  if (!std::filesystem::exists(path)) return;
  const auto differences = function_differences(model, model_of_hf_config(path));
  if (differences.empty()) return;
  const auto& [key, ours, theirs] = differences.front();
  fail(ExitCode::config, "{}: describes a model with {}: {}, and the config has {}", path, key,
       theirs, ours);
}

}  // namespace trireme
