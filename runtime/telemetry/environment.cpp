// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/environment.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/host.h"
#include "runtime/telemetry/secrets.h"
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

json variables() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || !may_be_recorded(text.substr(0, equals))) continue;
    found.emplace(text.substr(0, equals), without_secrets(text.substr(equals + 1)));
  }
  return found;
}

}  // namespace

std::string version_text() {
  return fmt::format("{} ({}, {}, {})", build::version, build::revision, build::compiler,
                     build::type);
}

std::string build_text() {
  const std::string_view sanitizers = build::sanitizers;
  const std::string changes = changes_of(build::revision, "/proc/self/exe");
  return fmt::format("{}, {}{}{}{}{}", version_text(), build::architecture,
                     sanitizers.empty() ? "" : ", ", sanitizers, changes.empty() ? "" : ", ",
                     changes);
}

std::string changes_of(std::string_view revision, const std::string& program) {
  if (!revision.ends_with("-dirty") && revision != build::no_revision) return "";
  return fmt::format("XXH3 of the program {:016x}", file_checksum(program, ExitCode::config));
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
      {"command_line", without_secrets(environment.command_line)},
      {"ranks", environment.ranks},
      {"hosts", environment.hosts},
      {"cpu", cpu()},
      {"memory_bytes", host_memory().total_bytes},
      {"operating_system", operating_system()},
      {"libraries", environment.libraries},
      {"nccl_ctas", environment.nccl_ctas},
      {"variables", variables()},
  };
  // Host names, arguments and variables may be invalid UTF-8; the file must be valid.
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string recorded_command_line(const RunEnvironment& environment) {
  const std::string text =
      fmt::format("{}", fmt::join(without_secrets(environment.command_line), " "));
  return parse_json<json>(json(text).dump(-1, ' ', false, json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace trireme
