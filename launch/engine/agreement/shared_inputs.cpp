// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/agreement/shared_inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "models/config.h"
#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/device/device.h"
#include "runtime/telemetry/environment.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).string();
}

std::string own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace

void require_same_program(Communicator& world) {
  const bool cuda = Device::in_build(DeviceType::cuda);
  check_same_on_all_ranks(world, {.name = "the program",
                                  .value = fmt::format("{}, {} the cuda back end", build_text(),
                                                       cuda ? "with" : "without"),
                                  .place = own_program(),
                                  .advice = "install the same build on every host"});
}

void require_same_config(Communicator& world, const Config& resolved) {
  check_same_on_all_ranks(world, "the resolved config", to_yaml(resolved));
}

void require_same_data(Communicator& world, std::string_view what, const std::string& path,
                       const Dataset& dataset) {
  check_same_on_all_ranks(
      world, {.name = fmt::format("{}: {}", what, path),
              .value = fmt::format("data with fingerprint {:016x} ({} samples)",
                                   dataset.fingerprint(), dataset.size()),
              .place = absolute(path),
              .code = ExitCode::data,
              .advice = "all ranks must read the same data: copy it to every host again, or use "
                        "the absolute path of a directory that all hosts share"});
}

namespace {

namespace fs = std::filesystem;

constexpr double file_patience_seconds = 3;  // for NFS, which caches missing names

bool exists_now(const std::string& path) {
  std::error_code ignored;
  // Reading the directory makes NFS query the server.
  const fs::directory_iterator refreshed(fs::absolute(path, ignored).parent_path(), ignored);
  return fs::exists(path, ignored);
}

}  // namespace

std::vector<std::string> hosts_without(Communicator& world, const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const auto lacking = gather_texts(world, exists_now(path) ? std::string() : host_name());
    const auto there = std::ranges::count(lacking, std::string());
    if (there == std::ssize(lacking) || there == 0) return {};
    const auto late =
        gather_texts(world, seconds_since(start) > file_patience_seconds ? "late" : "");
    if (late[0] == "late") {
      std::set<std::string> hosts(lacking.begin(), lacking.end());
      hosts.erase("");
      return {hosts.begin(), hosts.end()};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

void require_data_on_all_hosts(Communicator& world, std::string_view key, const std::string& path) {
  const auto lacking = hosts_without(world, path);
  if (lacking.empty()) return;
  fail(ExitCode::data,
       "{}: {} is not on {}, though it is on other hosts of the job; copy it there, or use a "
       "directory on a file system that all hosts share",
       key, path, fmt::join(lacking, ", "));
}

void require_shared_run_directory(Communicator& world, const std::string& directory,
                                  const std::string& file) {
  const auto lacking = hosts_without(world, file);
  if (lacking.empty()) return;
  fail(ExitCode::config,
       "run.directory: {} of rank 0 is not visible on {}, but ranks of all hosts write "
       "checkpoints; use a directory on a file system that all hosts share",
       directory, fmt::join(lacking, ", "));
}

}  // namespace trireme
