// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/machine_check.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "launch/engine/agreement/core_sharing.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

void warn_of(const std::string& load) {
  log::get("bench").warn("other processes disturbed the measurement ({})", load);
}

}  // namespace

std::string MachineCheck::finish(Communicator& world, const std::string& file) const {
  MachineLoad own = meter_.read();
  // Ranks that share cores always wait for each other.
  if (most_crowded(world).crowded()) own.waited = 0;
  std::string text;
  for (const auto& [host, load] : load_of_hosts(world, own)) {
    if (load.disturbs())
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", host, describe(load));
  }
  if (text.empty()) return text;
  if (!file.empty() && !accept_load_) {
    fail(ExitCode::internal,
         "{} is not written, because other processes disturbed the measurement ({}); stop them or "
         "measure again when the machine is idle (--accept-load writes it anyway)",
         file, text);
  }
  if (world.rank() == 0) warn_of(text);
  return text;
}

void MachineCheck::finish(std::int64_t threads) const {
  MachineLoad load = meter_.read();
  if (threads > load.cores) load.waited = 0;  // they wait for each other
  if (load.disturbs()) warn_of(describe(load));
}

void add_load_option(CLI::App& command, bool& accept_load) {
  command.add_flag("--accept-load", accept_load,
                   "Write the hardware file even where other processes ran beside the measurement");
}

}  // namespace trireme
