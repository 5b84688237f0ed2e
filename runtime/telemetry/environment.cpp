// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/environment.h"

#include <fmt/chrono.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/telemetry/host.h"
#include "trireme_version.h"

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

json cpu() {
  const HostCpu cpu = host_cpu();
  return {{"model", cpu.model},
          {"extensions", cpu.extensions},
          {"cores_online", cpu.cores_online},
          {"cores_allowed", cpu.cores_allowed > 0 ? json(cpu.cores_allowed) : json(nullptr)}};
}

json operating_system() {
  utsname name{};
  if (::uname(&name) != 0) return nullptr;
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

bool may_hold_a_secret(std::string_view name) {
  constexpr std::array words = {"JWT", "KEY", "TOKEN", "SECRET", "PASSWORD", "TRANSPORTS"};
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return std::ranges::any_of(
      words, [&upper](const char* word) { return upper.find(word) != std::string::npos; });
}

json variables() {
  constexpr std::array prefixes = {"OMPI_", "SLURM_", "OMP_", "DNNL_", "TRIREME_"};
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const auto wanted = [name](const char* prefix) { return name.starts_with(prefix); };
    if (equals == std::string_view::npos || !std::ranges::any_of(prefixes, wanted) ||
        may_hold_a_secret(name)) {
      continue;
    }
    found.emplace(name, text.substr(equals + 1));
  }
  return found;
}

}  // namespace

std::string version_text() {
  return fmt::format("{} ({}, {}, {})", build::version, build::revision, build::compiler,
                     build::type);
}

std::string environment_json(const RunEnvironment& environment) {
  const auto now = std::time(nullptr);
  const json document = {
      {"version", build::version},
      {"revision", build::revision},
      {"compiler", build::compiler},
      {"build_type", build::type},
      {"build_architecture", build::architecture},
      {"sanitizers", build::sanitizers},
      {"start_time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now))},
      {"command_line", environment.command_line},
      {"ranks", environment.ranks},
      {"hosts", environment.hosts},
      {"cpu", cpu()},
      {"memory_bytes", host_memory().total_bytes},
      {"operating_system", operating_system()},
      {"libraries", environment.libraries},
      {"variables", variables()},
  };
  // A host name, argument or variable need not be UTF-8; the file must be.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::uint64_t peak_resident_bytes() {
  rusage use{};
  if (::getrusage(RUSAGE_SELF, &use) != 0) system_failed("getrusage", "RUSAGE_SELF");
  return static_cast<std::uint64_t>(use.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace trireme
