// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/offline_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view word = "trireme", digits = "0123456789abcdef";
constexpr std::size_t digit_count = 16;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(directory, error))) return names;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

void remove_runs(const fs::path& parent, bool (*ours)(const std::string&)) {
  std::error_code error;
  for (const std::string& name : names_in(parent)) {
    if (!ours(name)) continue;
    fs::remove_all(parent / name, error);
    if (error)
      fail(ExitCode::config, "run.directory: {}: cannot be removed: {}", (parent / name).string(),
           error.message());
  }
}

}  // namespace

std::string new_run_id() {
  std::random_device random;
  std::string id(word);
  for (std::size_t digit = 0; digit < digit_count; ++digit)
    id += digits[random() % digits.size()];
  return id;
}

bool is_mlflow_run(const std::string& name) {
  return name.size() == word.size() + digit_count && name.starts_with(word) &&
         name.find_first_not_of(digits, word.size()) == std::string::npos;
}

bool is_wandb_run(const std::string& name) {
  return name.starts_with("offline-run-") && is_mlflow_run(name.substr(name.rfind('-') + 1));
}

std::string offline_run_in(const std::string& parent, bool (*ours)(const std::string& name)) {
  std::string last;
  for (const std::string& name : names_in(parent))
    if (ours(name)) last = name;
  return last;
}

void remove_offline_runs(const std::string& directory) {
  const fs::path wandb = fs::path(directory) / "wandb", mlruns = fs::path(directory) / "mlruns",
                 experiment = mlruns / mlflow_experiment;
  remove_runs(wandb, is_wandb_run);
  remove_runs(experiment, is_mlflow_run);
  std::error_code ignored;  // a directory with something else in it stays
  if (names_in(experiment) == std::vector<std::string>{"meta.yaml"})
    fs::remove(experiment / "meta.yaml", ignored);
  for (const fs::path& empty : {wandb, experiment, mlruns})
    fs::remove(empty, ignored);
}

}  // namespace trireme
