// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/paths.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void make_absolute(std::string& path) {
  if (path.empty()) return;
  std::error_code error;  // the current directory is gone: the path stays as written
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  if (!error) path = whole.string();
}

}  // namespace

fs::path config::fixed_part(const std::string& pattern) {
  const auto wild = pattern.find_first_of("*?[");
  if (wild == std::string::npos) return pattern;
  return fs::path(pattern.substr(0, wild) + "x").parent_path();
}

void config::resolve_path(std::string& path, const fs::path& beside) {
  std::error_code ignored;  // a path that cannot be examined counts as absent
  if (path.empty() || fs::path(path).is_absolute() || fs::exists(path, ignored)) return;
  const fs::path fixed = fixed_part(path);
  if (fixed != path && !fixed.empty() && fs::exists(fixed, ignored)) return;
  if (fs::exists(beside / fixed, ignored)) path = (beside / path).lexically_normal().string();
}

std::string config_of_weights(const std::string& path) {
  if (path.empty()) return "";
  fs::path run = fs::path(path).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // "runs/a/"
  const std::string name = run.filename().string();
  if (name.starts_with("weights") && name.ends_with(".safetensors")) {
    run = run.parent_path();
  } else if (name == "checkpoints") {
    run = run.parent_path();
  } else if (run.parent_path().filename() == "checkpoints") {
    run = run.parent_path().parent_path();
  }
  std::error_code ignored;  // a path that cannot be examined counts as absent
  const fs::path file = run / "config.yaml";
  return fs::is_regular_file(file, ignored) ? file.string() : "";
}

Config with_absolute_paths(Config config) {
  for (std::string* const path : config::input_paths(config))
    make_absolute(*path);
  make_absolute(config.run.directory);
  make_absolute(config.data.stage);
  if (config.device.autotune != "off") make_absolute(config.device.autotune);
  return config;
}

}  // namespace trireme
