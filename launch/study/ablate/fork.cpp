// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/fork.h"

#include <filesystem>

#include "runtime/base/error.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::ablate {
namespace {

namespace fs = std::filesystem;

fs::path checkpoint_of(const std::string& run, std::int64_t step) {
  return fs::path(RunDirectory::checkpoints_in(run)) / step_directory_name(step);
}

// What a run reads, or goes on with, of its earlier steps.
bool is_record(const std::string& name) {
  for (const char* const record :
       {"metrics.jsonl", "ranks.jsonl", "certificate.jsonl", "config.yaml", "config.user.yaml",
        "environment.json", "data.json", "start_times.json", "console.log"})
    if (name == record) return true;
  return name.starts_with("data") && name.ends_with(".index");
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to);
}

}  // namespace

bool has_reached(const std::string& directory, std::int64_t step, bool last) {
  std::error_code error;
  if (last) return fs::exists(RunDirectory::weights_in(directory), error);
  return fs::exists(checkpoint_of(directory, step) / "manifest.json", error);
}

void fork_run(const std::string& from, const std::string& to, std::int64_t step) {
  const fs::path checkpoint = checkpoint_of(from, step);
  if (!has_reached(from, step, false))
    fail(ExitCode::checkpoint, "{}: is not there: {} cannot go on from it", checkpoint.string(),
         to);
  const fs::path half = to + ".tmp";
  try {
    fs::remove_all(half);
    const fs::path copied = checkpoint_of(half.string(), step);
    fs::create_directories(copied);
    for (const fs::directory_entry& file : fs::directory_iterator(checkpoint))
      link_or_copy(file.path(), copied / file.path().filename());
    for (const fs::directory_entry& file : fs::directory_iterator(from))
      if (file.is_regular_file() && is_record(file.path().filename().string()))
        fs::copy_file(file.path(), half / file.path().filename());
    fs::rename(half, to);
  } catch (const fs::filesystem_error& error) {
    fail(ExitCode::internal, "{}: cannot be made from {}: {}", to, from, error.what());
  }
}

}  // namespace trireme::ablate
