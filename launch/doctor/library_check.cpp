// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>

#include "launch/doctor/host_check.h"
#include "launch/libraries.h"
#include "runtime/base/error.h"
#include "runtime/telemetry/environment.h"

namespace trireme::doctor {
namespace {

// How many processes a launcher says that it started; 0: it says nothing.
struct Launcher {
  std::string name;
  int processes = 0;
};

Launcher launcher() {
  constexpr std::array<std::array<const char*, 2>, 4> variables = {
      {{"OMPI_COMM_WORLD_SIZE", "mpirun"},
       {"SLURM_STEP_NUM_TASKS", "srun"},
       {"PMI_SIZE", "a PMI launcher"},
       {"WORLD_SIZE", "a launcher that sets WORLD_SIZE"}}};
  for (const auto& [variable, name] : variables) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) continue;
    const std::string_view digits(text);
    int value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec == std::errc())
      return {name, value};
  }
  return {"none", 0};
}

}  // namespace

void check_libraries(Findings& findings, const MpiEnvironment& mpi) {
  findings.fine("trireme", version_text());
  const Launcher started_by = launcher();
  const std::string text = fmt::format("{}; {} rank{}, {} on this host", started_by.name,
                                       mpi.size(), mpi.size() == 1 ? "" : "s", mpi.local_size());
  if (started_by.processes > mpi.size()) {
    findings.problem(
        "launcher",
        fmt::format("{}; it started {} processes that do not find each other", text,
                    started_by.processes),
        "use mpirun, or srun --mpi=pmix (srun --mpi=list shows what it has), of the MPI "
        "that this program was built with");
  } else {
    findings.fine("launcher", text);
  }
  try {
    for (const auto& [name, version] : library_versions())
      findings.fine(name, version);
  } catch (const Error& error) {
    findings.problem("libraries", error.what(), "");
  }
}

}  // namespace trireme::doctor
