// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "launch/observe/report/differences.h"
#include "launch/replay/verify_run.h"
#include "models/config.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/certificate/certificate.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme {
namespace {

using Step = CertificateRecord::Step;

// For steps with digests of every tensor in both: names the first that differs.
bool tensors_differ(std::int64_t step, const CertificateRecord& a, const CertificateRecord& b,
                    RunCheck& check) {
  const auto here = a.tensors_after.find(step), there = b.tensors_after.find(step);
  if (here == a.tensors_after.end() || there == b.tensors_after.end()) return false;
  for (const auto& [name, digest] : here->second) {
    const auto found = there->second.find(name);
    if (found != there->second.end() && found->second == digest) continue;
    add(check, fmt::format("weights after {}", step), fmt::format("{} differs", name), false);
    return true;
  }
  return false;
}

// Certificates of other versions or settings lack some of the compared values.
void require_alike(const CertificateRecord& a, const CertificateRecord& b, const std::string& path,
                   const std::string& other) {
  if (a.starts.empty() || b.starts.empty()) return;
  const std::int64_t here = a.starts.back().weight_digests, there = b.starts.back().weight_digests;
  if (here == there) return;
  fail(ExitCode::config,
       "{} has digests of the weights by telemetry.weight_digests = {}, {} by {} (0: none, or by a "
       "version without them): they cannot be compared; run one of them again with the setting of "
       "the other",
       path, here, other, there);
}

// The first step that differs; 0: none of the common ones.
std::int64_t compare_steps(const CertificateRecord& a, const CertificateRecord& b,
                           RunCheck& check) {
  const std::pair<const char*, std::string Step::*> parts[] = {
      {"other samples", &Step::samples},
      {"another loss", &Step::loss},
      {"another gradient norm", &Step::grad_norm},
      {"another weight digest", &Step::weights}};
  const auto common = std::min(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < common; ++i) {
    const Step &left = a.steps[i], &right = b.steps[i];
    if (left == right) {
      if (tensors_differ(left.step, a, b, check)) return left.step;
      continue;
    }
    if (left.step != right.step)
      add(check, "steps", fmt::format("{} here, {} there", left.step, right.step), false);
    for (const auto& [name, member] : parts)
      if (left.*member != right.*member)
        add(check, fmt::format("step {}", left.step),
            fmt::format("{}: {} here, {} there", name, left.*member, right.*member), false);
    tensors_differ(left.step, a, b, check);
    return left.step;
  }
  add(check, "steps", fmt::format("{} equal in samples, loss, gradient norm and weights", common),
      true);
  if (a.steps.size() != b.steps.size())
    add(check, "length", fmt::format("{} steps here, {} there", a.steps.size(), b.steps.size()),
        false);
  return 0;
}

// Of common evaluations before step `parted` (0: all).
void compare_evaluations(const CertificateRecord& a, const CertificateRecord& b,
                         std::int64_t parted, RunCheck& check) {
  std::int64_t equal = 0;
  for (const auto& [step, loss] : a.evaluations) {
    const auto found = b.evaluations.find(step);
    if (found == b.evaluations.end() || (parted > 0 && step >= parted)) continue;
    if (found->second != loss)
      return add(check, fmt::format("evaluation after step {}", step),
                 fmt::format("another validation loss: {} here, {} there", loss, found->second),
                 false);
    ++equal;
  }
  if (equal > 0) add(check, "evaluations", fmt::format("{} equal in validation loss", equal), true);
}

void compare_tensors(const char* what, const TensorDigests& a, const TensorDigests& b,
                     RunCheck& check) {
  if (a.empty() || b.empty()) return;
  for (const auto& [name, digest] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second != digest)
      return add(check, what, fmt::format("{} differs", name), false);
  }
  add(check, what, a.size() == b.size() ? "equal" : "for other tensors", a.size() == b.size());
}

// The start that made the step; for step 0 the last.
const CertificateStart& start_of(const CertificateRecord& record, std::int64_t step) {
  const auto later = std::ranges::find_if(record.starts, [&](const CertificateStart& start) {
    return step > 0 && start.after >= step;
  });
  return later == record.starts.begin() ? record.starts.front() : *std::prev(later);
}

report::RunData settings_of(const std::string& directory) {
  const Config config = load_config(RunDirectory::config_in(directory), {});
  return {.directory = directory, .family = config.model.family, .settings = values_by_key(config)};
}

// Lists differing settings of the two starts, key by key.
void add_settings(const std::string& directory, const std::string& other, RunCheck& check) {
  try {
    const std::vector<report::RunData> runs{settings_of(directory), settings_of(other)};
    for (const report::SettingGroup& group : report::differing_settings(runs))
      for (const report::SettingDifference& one : group.differences)
        add(check, "  config.yaml",
            group.families.empty()
                ? fmt::format("{}: {} here, {} there", one.key, one.values[0], one.values[1])
                : fmt::format("{}: {}, of {} alone", one.key, one.values[0], group.families),
            true);
  } catch (const Error& error) {
    add(check, "  config.yaml", error.what(), true);
  }
}

// Lists the known reasons why the runs differ at `step`; those of the machine first.
void add_causes(const CertificateStart& here, const CertificateStart& there,
                std::span<const std::string> environments, RunCheck& check) {
  for (const std::string& difference : environments)
    add(check, "  environment", difference, true);
  const auto said = [&](const char* what, const std::string& left, const std::string& right) {
    if (left != right) add(check, what, fmt::format("{} here; {} there", left, right), true);
  };
  said("  mode", here.mode, there.mode);
  said("  layout", here.layout, there.layout);
  said("  training data", here.data, there.data);
  said("  program", here.program, there.program);
  if (here.program == there.program) said("  executable", here.binary, there.binary);
  for (const auto& [name, version] : here.libraries)
    if (const auto found = there.libraries.find(name); found != there.libraries.end())
      said(("  " + name).c_str(), version, found->second);
  said("  hosts", fmt::format("{}", fmt::join(here.hosts, ",")),
       fmt::format("{}", fmt::join(there.hosts, ",")));
}

bool changes_results(std::string_view variable) {
  constexpr std::array prefixes{"DNNL_",   "ONEDNN_", "OMP_",         "CUBLAS_",
                                "NVIDIA_", "NCCL_",   "OMPI_MCA_coll"};
  return std::ranges::any_of(prefixes,
                             [&](const char* one) { return variable.starts_with(one); }) &&
         !variable.ends_with("_VERBOSE") && !variable.ends_with("_DEBUG");
}

nlohmann::json relevant_environment(const std::string& text) {
  const auto json = json_or_discarded(text);
  auto values = nlohmann::json::object();
  if (!json.is_object()) return values;
  const auto cpu = json.value("cpu", values), variables = json.value("variables", values);
  for (const auto& [name, value] : variables.items())
    if (changes_results(name)) values[name] = value;
  values["processor"] = cpu.value("model", "");
  values["instruction sets"] = cpu.value("extensions", nlohmann::json());
  return values;
}

}  // namespace

std::string environment_of(const std::string& run, const CertificateStart& start) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 26;
  const auto text =
      read_file_if_exists(RunDirectory::environment_in(run), largest, ExitCode::config);
  return text && digest_text(checksum_of(*text)) == start.environment ? *text : "";
}

std::vector<std::string> environment_differences(const std::string& here,
                                                 const std::string& there) {
  std::vector<std::string> differences;
  if (here.empty() || there.empty()) return differences;
  const auto one = relevant_environment(here), other = relevant_environment(there);
  auto all = one;
  all.update(other);
  for (const auto& [name, value] : all.items()) {
    const auto text = [&](const nlohmann::json& values) {
      return values.contains(name) ? values[name].dump() : "unset";
    };
    if (text(one) != text(other))
      differences.push_back(fmt::format("{}: {} here, {} there", name, text(one), text(other)));
  }
  return differences;
}

RunCheck compare_runs(const std::string& directory, const std::string& other) {
  const CertificateRecord a = read_certificate(certificate_in(directory));
  const CertificateRecord b = read_certificate(certificate_in(other));
  require_alike(a, b, directory, other);
  RunCheck check;
  const std::int64_t parted = compare_steps(a, b, check);
  compare_evaluations(a, b, parted, check);
  if (parted == 0) {
    compare_tensors("weights", a.tensors, b.tensors, check);
    compare_tensors("averages", a.averages, b.averages, check);
  }
  if (check.problems.empty() || a.starts.empty() || b.starts.empty()) return check;
  check.lines.push_back("what differs between the starts of the runs:");
  const std::size_t before = check.lines.size();
  const CertificateStart &here = start_of(a, parted), &there = start_of(b, parted);
  add_causes(here, there,
             environment_differences(environment_of(directory, here), environment_of(other, there)),
             check);
  add_settings(directory, other, check);
  if (check.lines.size() == before) check.lines.push_back("  no known difference");
  const bool layout_mode = here.mode.starts_with("layout") && there.mode.starts_with("layout");
  if (here.layout != there.layout && !layout_mode)
    check.lines.push_back(
        "  layouts give the same bits only where both runs have reproducibility: layout");
  else if (here.mode.starts_with("fast") || there.mode.starts_with("fast"))
    check.lines.push_back("  reproducibility: fast may give other bits in each run");
  return check;
}

}  // namespace trireme
