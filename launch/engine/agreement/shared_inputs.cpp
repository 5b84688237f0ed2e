// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/agreement/shared_inputs.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/config.h"
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
              .value = fmt::format("data of fingerprint {:016x} ({} samples)",
                                   dataset.fingerprint(), dataset.size()),
              .place = absolute(path),
              .code = ExitCode::data,
              .advice = "all ranks must read the same data: copy it to every host anew, or use a "
                        "directory that all of them share, by an absolute path"});
}

}  // namespace trireme
