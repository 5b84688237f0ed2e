// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "launch/doctor/host_check.h"
#include "launch/job/libraries.h"
#include "runtime/base/error.h"
#include "runtime/telemetry/environment.h"

namespace trireme::doctor {
void check_libraries(Findings& findings, const MpiEnvironment& mpi) {
  findings.fine("trireme", version_text());
  findings.fine("launcher", fmt::format("{}; {} rank{}, {} on this host", mpi.launcher(),
                                        mpi.size(), mpi.size() == 1 ? "" : "s", mpi.local_size()));
  try {
    for (const auto& [name, version] : library_versions())
      findings.fine(name, version);
  } catch (const Error& error) {
    findings.problem("libraries", error.what(), "");
  }
}

}  // namespace trireme::doctor
