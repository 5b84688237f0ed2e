// SPDX-License-Identifier: Apache-2.0
// Whether a benchmark had its machines to itself. Measurements beside other processes do not
// describe the machine alone, so the planner must not use them.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/telemetry/machine_load.h"

namespace CLI {
class App;
}

namespace trireme {

class MachineCheck {
 public:
  // Starts watching the machine.
  explicit MachineCheck(bool accept_load) : accept_load_(accept_load) {}

  // Load by other processes per host; empty if there was none. Logs it on rank 0, and raises
  // ExitCode::internal on all ranks if `file` (empty: none) would be written and load was not
  // accepted. Collective.
  [[nodiscard]] std::string finish(Communicator& world, const std::string& file) const;
  // The same for a benchmark of one process on `threads` threads that writes no such file.
  void finish(std::int64_t threads) const;

 private:
  bool accept_load_;
  LoadMeter meter_;
};

// --accept-load
void add_load_option(CLI::App& command, bool& accept_load);

}  // namespace trireme
