// SPDX-License-Identifier: Apache-2.0
#include "launch/verify_run/verify_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/base/line_reader.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/gather.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/telemetry/certificate/certificate.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/train/digests/weight_digests.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void add(RunCheck& check, std::string_view what, const std::string& finding, bool holds) {
  if (holds)
    check.lines.push_back(fmt::format("{:<20} {}", what, finding));
  else
    check.problems.push_back(fmt::format("{}: {}", what, finding));
}

// A damaged file is a finding like any other.
template <typename Look>
void whatever_happens(RunCheck& check, std::string_view what, const Look& look) {
  try {
    look();
  } catch (const Error& error) {
    add(check, what, error.what(), false);
  }
}

std::string span_of(const CertificateRecord& record) {
  if (record.steps.empty()) return "no step";
  return fmt::format("steps {} to {}", record.steps.front().step, record.steps.back().step);
}

void check_chain(const CertificateRecord& record, RunCheck& check) {
  add(check, "certificate",
      fmt::format("{} in {} start{}, chain {}", span_of(record), record.starts.size(),
                  record.starts.size() == 1 ? "" : "s", record.chain),
      true);
  for (const CertificateStart& start : record.starts)
    check.lines.push_back(fmt::format("  after step {:<8} {}; {}; {}", start.after, start.layout,
                                      start.mode, start.program));
  if (record.is_torn)
    check.lines.push_back(
        "  its last line is cut off, by a kill or a full disk, or being written: it does not "
        "count");
  std::ranges::copy(record.problems, std::back_inserter(check.problems));
  if (record.starts.empty())
    check.problems.push_back(fmt::format("{}: no start of a run is in it", certificate_name));
}

// The files of the last start; one of an old version has no digest of some.
void check_files(const std::string& directory, const CertificateRecord& record, RunCheck& check) {
  if (record.starts.empty()) return;
  constexpr std::uint64_t largest = std::uint64_t{1} << 26;
  const CertificateStart& start = record.starts.back();
  const std::pair<std::string, std::string> files[] = {
      {RunDirectory::config_in(directory), start.config},
      {RunDirectory::user_config_in(directory), start.user_config},
      {RunDirectory::environment_in(directory), start.environment}};
  for (const auto& [path, digest] : files) {
    const std::string name = fs::path(path).filename();
    if (digest.empty()) {
      add(check, name, "is not certified: a version before 0.2.0 wrote the certificate", true);
      continue;
    }
    whatever_happens(check, name, [&] {
      if (!fs::exists(path)) return add(check, name, "is not there", false);
      const std::string text = read_whole_file(path, largest, ExitCode::config);
      const bool same = digest_text(checksum_of(text)) == digest;
      add(check, name, same ? "is that of the last start" : "is not that of the last start", same);
    });
  }
}

using CertifiedSteps = std::map<std::int64_t, const CertificateRecord::Step*>;

// Numbers of metrics.jsonl print with digits that read back to the same value.
bool is_value(const nlohmann::json& line, const char* key, const std::string& certified) {
  const auto found = line.find(key);
  if (found == line.end()) return false;
  const bool none = certified.find("nan") != std::string::npos ||
                    certified.find("inf") != std::string::npos;  // null in JSON
  return none ? found->is_null()
              : found->is_number() && exact_text(found->get<double>()) == certified;
}

// Empty where nothing is wrong with what a line says of a step.
std::string wrong_value(const nlohmann::json& line, const CertifiedSteps& steps,
                        const CertificateRecord& record) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return "is no line of a run";
  const auto step = line["step"].get<std::int64_t>();
  if (line.contains("loss")) {
    const auto found = steps.find(step);
    if (found == steps.end()) return fmt::format("is of step {}, which is not certified", step);
    if (!is_value(line, "loss", found->second->loss))
      return fmt::format("has another loss at step {}", step);
    if (!is_value(line, "grad_norm", found->second->grad_norm))
      return fmt::format("has another grad_norm at step {}", step);
  }
  const auto evaluated = record.evaluations.find(step);
  if (line.contains("validation_loss") && evaluated != record.evaluations.end() &&
      !is_value(line, "validation_loss", evaluated->second))
    return fmt::format("has another validation_loss at step {}", step);
  return {};
}

// Every line is certified, in the same order; of the starts of old versions, which come first, the
// steps' losses and norms alone, and their last line may be ahead. A run that was killed may have
// certified one that it did not come to write.
void check_metrics(const std::string& directory, const CertificateRecord& record, RunCheck& check) {
  CertifiedSteps steps;
  for (const CertificateRecord::Step& step : record.steps)
    steps[step.step] = &step;
  LineReader lines(directory + "/metrics.jsonl");
  std::int64_t old_lines = 0;
  std::size_t certified = 0, found_steps = 0;
  const bool is_old = record.starts.empty() || record.starts.front().user_config.empty();
  const bool has_ended = record.weights_step > 0;
  std::string ahead;
  while (const auto text = lines.next()) {
    const auto wrong = [&](const std::string& what) {
      add(check, "metrics.jsonl", fmt::format("line {} {}", lines.number(), what), false);
    };
    if (!ahead.empty()) return wrong("follows one that is not certified: " + ahead);
    const auto json = json_or_discarded(*text);
    const std::string value = wrong_value(json, steps, record);
    const std::string digest = digest_text(checksum_of(std::string(*text) + "\n"));
    const bool is_next =
        certified < record.metrics.size() && record.metrics[certified].digest == digest;
    if (is_old && certified == 0 && !is_next) {
      ++old_lines;
      if (!value.empty() && (has_ended || !record.metrics.empty())) return wrong(value);
      ahead = value;
    } else if (!is_next) {
      return wrong(!value.empty() ? value
                   : certified < record.metrics.size()
                       ? "was changed, or one before it was taken away"
                       : "is not certified");
    } else {
      ++certified;
    }
    if (json.contains("loss") && value.empty()) ++found_steps;
  }
  const std::size_t missing = record.metrics.size() - certified;
  if (missing > (has_ended ? 0U : 1U))
    return add(check, "metrics.jsonl",
               fmt::format("lacks {} certified line{} at its end, the first of step {}", missing,
                           missing == 1 ? "" : "s", record.metrics[certified].step),
               false);
  if (found_steps + missing < record.steps.size())
    return add(check, "metrics.jsonl",
               fmt::format("lacks {} of {} certified steps", record.steps.size() - found_steps,
                           record.steps.size()),
               false);
  add(check, "metrics.jsonl",
      fmt::format("has the losses and gradient norms of all {} steps{}", found_steps,
                  old_lines > 0 ? "; an older version certified nothing else of its lines"
                                : ", and every line is certified"),
      true);
}

void check_weights(const std::string& directory, const CertificateRecord& record, RunCheck& check) {
  const std::string path = RunDirectory::weights_in(directory);
  const bool there = fs::exists(path);
  if (record.weights_step == 0) {
    if (!there) return;
    const WeightFiles files(path);
    const auto& metadata = files.file_of(files.names().front()).metadata();
    const auto found = metadata.find("step");
    const std::string step = found == metadata.end() ? "?" : found->second;
    const std::int64_t last = record.steps.empty() ? 0 : record.steps.back().step;
    // A run that got more steps goes on beside those that it had ended with.
    const bool earlier = std::strtoll(step.c_str(), nullptr, 10) < last;
    const bool is_old = record.starts.empty() || record.starts.back().user_config.empty();
    return add(check, "weights",
               fmt::format("of step {} are not certified: {}", step,
                           earlier  ? "the run went on after them"
                           : is_old ? "the run was ended before it had"
                                    : "the certificate lacks its end"),
               earlier || is_old);
  }
  if (!there) return add(check, "weights", "are not there", false);
  const WeightFiles files(path);
  for (const auto& [name, digest] : record.tensors) {
    if (!files.contains(name)) return add(check, "weights", fmt::format("lack {}", name), false);
    const std::vector<float> values = files.read(name);
    const WholeTensor tensor{name, files.file_of(name).shape(name), values};
    if (digest_of({&tensor, 1}) != digest)
      return add(check, "weights", fmt::format("differ in {}", name), false);
  }
  add(check, "weights",
      fmt::format("are those of step {}: all {} tensors", record.weights_step,
                  record.tensors.size()),
      true);
}

// The first tensor whose values are not those that the run had; empty where all are, or nobody
// wrote down what they were.
std::string uncertified_tensor(const FoundCheckpoint& checkpoint, const CertificateRecord& record) {
  const auto certified = record.tensors_after.find(checkpoint.step);
  if (certified == record.tensors_after.end()) return {};
  const StoredValues stored = stored_values(checkpoint.path, checkpoint.manifest, ValueKind::model);
  StoredReader reader(stored);
  for (const auto& [name, tensor] : stored.tensors) {
    const auto found = certified->second.find(name);
    if (found == certified->second.end() ||
        digest_text(tensor_digest(name, reader.whole(tensor))) != found->second)
      return name;
  }
  return {};
}

std::string finding_of(const FoundCheckpoint& checkpoint, const CertificateRecord& record,
                       bool& holds) {
  const std::vector<Damage> damage = verify_checkpoint(checkpoint.path, checkpoint.manifest);
  const std::string other = damage.empty() ? uncertified_tensor(checkpoint, record) : "";
  holds = damage.empty() && other.empty();
  if (!damage.empty()) return damage.front().describe();
  if (!other.empty()) return fmt::format("{} is not what the run had in that step", other);
  return record.tensors_after.contains(checkpoint.step)
             ? "every checksum agrees, and every tensor with the certificate"
             : "every checksum agrees";
}

void check_checkpoints(const std::string& directory, const CertificateRecord& record,
                       RunCheck& check) {
  for (const StepDirectory& found : list_checkpoints(RunDirectory::checkpoints_in(directory))) {
    const std::string name = fs::path(found.path).filename();
    whatever_happens(check, name, [&] {
      const FoundCheckpoint checkpoint = open_checkpoint(found.path);
      if (record.steps.empty() || checkpoint.step > record.steps.back().step)
        return add(check, name, "is of a step that the certificate has not come to", false);
      bool holds = false;
      const std::string finding = finding_of(checkpoint, record, holds);
      add(check, name, finding, holds);
    });
  }
}

std::string certificate_in(const std::string& directory) {
  if (!fs::is_directory(directory))
    fail(ExitCode::config, "{}: no such directory; give the directory of a run", directory);
  std::string path = directory + "/" + std::string(certificate_name);
  if (!fs::exists(path))
    fail(ExitCode::config,
         "{}: is not there; give the directory of a run, one of version 0.2.0 or later", path);
  return path;
}

// Of steps for which both have the digest of every tensor: names the first that differs.
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

// Certificates of other versions, or of another setting, lack some of what is compared.
void require_alike(const CertificateRecord& a, const CertificateRecord& b, const std::string& path,
                   const std::string& other) {
  if (a.starts.empty() || b.starts.empty()) return;
  const std::int64_t here = a.starts.back().weight_digests, there = b.starts.back().weight_digests;
  if (here == there) return;
  fail(
      ExitCode::config,
      "{} has digests of the weights by telemetry.weight_digests = {}, {} by {} (0: by none, or by "
      "a version that had none): they cannot be compared; run one of them again with the other's "
      "setting",
      path, here, other, there);
}

}  // namespace

RunCheck verify_run(const std::string& directory) {
  RunCheck check;
  const CertificateRecord record = read_certificate(certificate_in(directory));
  check_chain(record, check);
  check_files(directory, record, check);
  whatever_happens(check, "metrics.jsonl", [&] { check_metrics(directory, record, check); });
  whatever_happens(check, "weights", [&] { check_weights(directory, record, check); });
  check_checkpoints(directory, record, check);
  return check;
}

RunCheck compare_runs(const std::string& directory, const std::string& other) {
  using Step = CertificateRecord::Step;
  const CertificateRecord a = read_certificate(certificate_in(directory));
  const CertificateRecord b = read_certificate(certificate_in(other));
  require_alike(a, b, directory, other);
  RunCheck check;
  const auto common = std::min(a.steps.size(), b.steps.size());
  const std::pair<const char*, std::string Step::*> parts[] = {
      {"samples", &Step::samples},
      {"loss", &Step::loss},
      {"gradient norm", &Step::grad_norm},
      {"digest of weights", &Step::weights}};
  for (std::size_t i = 0; i < common; ++i) {
    const Step &left = a.steps[i], &right = b.steps[i];
    if (left == right) {
      if (tensors_differ(left.step, a, b, check)) return check;
      continue;
    }
    if (left.step != right.step)
      add(check, "steps", fmt::format("{} here, {} there", left.step, right.step), false);
    for (const auto& [name, member] : parts)
      if (left.*member != right.*member)
        add(check, fmt::format("step {}", left.step),
            fmt::format("another {}: {} here, {} there", name, left.*member, right.*member), false);
    tensors_differ(left.step, a, b, check);
    return check;
  }
  add(check, "steps", fmt::format("{} equal in samples, loss, gradient norm and weights", common),
      true);
  if (a.steps.size() != b.steps.size())
    add(check, "length", fmt::format("{} steps here, {} there", a.steps.size(), b.steps.size()),
        false);
  for (const auto& [name, digest] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (b.tensors.empty() || (found != b.tensors.end() && found->second == digest)) continue;
    add(check, "weights", fmt::format("{} differs", name), false);
    return check;
  }
  if (!a.weights.empty() && a.weights == b.weights) add(check, "weights", "equal", true);
  return check;
}

}  // namespace trireme
