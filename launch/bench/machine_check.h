// SPDX-License-Identifier: Apache-2.0
// Whether a benchmark had its machines to itself: what it measured beside other programs describes
// them as well, and is no description of a machine for the planner.
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
  // From here on the machine is watched.
  explicit MachineCheck(bool accept_load) : accept_load_(accept_load) {}

  // What disturbed it, host by host; empty where it was quiet. Logs it on rank 0, and raises
  // ExitCode::internal on all ranks where `file` (empty: none) would be written from it and load
  // was not accepted. Collective.
  [[nodiscard]] std::string finish(Communicator& world, const std::string& file) const;
  // The same of a benchmark of one process on `threads` threads that writes no such file.
  void finish(std::int64_t threads) const;

 private:
  bool accept_load_;
  LoadMeter meter_;
};

// --accept-load
void add_load_option(CLI::App& command, bool& accept_load);

}  // namespace trireme
