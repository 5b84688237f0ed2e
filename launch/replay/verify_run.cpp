// SPDX-License-Identifier: Apache-2.0
#include "launch/replay/verify_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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

// Damaged files are reported as problems.
template <typename Look>
void collect_errors(RunCheck& check, std::string_view what, const Look& look) {
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
        "  its last line is incomplete (killed, disk full, or being written): it does not count");
  std::ranges::copy(record.problems, std::back_inserter(check.problems));
  if (record.starts.empty())
    check.problems.push_back(fmt::format("{}: has no start of a run", certificate_name));
}

std::string other_digest(std::string_view whose, const std::string& found,
                         const std::string& certified) {
  return fmt::format("the XXH3-64 of {} is {}, in the certificate {}", whose, found, certified);
}

// Checks the files of the last start; earlier versions lack some digests.
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
      add(check, name, "is not certified: an earlier version wrote the certificate", true);
      continue;
    }
    collect_errors(check, name, [&] {
      if (!fs::exists(path)) return add(check, name, "is not there", false);
      const std::string found =
          digest_text(checksum_of(read_whole_file(path, largest, ExitCode::config)));
      if (found == digest) return add(check, name, "is that of the last start", true);
      add(check, name,
          fmt::format("is not that of the last start: {}", other_digest("the file", found, digest)),
          false);
    });
  }
}

// Lines that the run added later are not certified.
void check_growing_files(const std::string& directory, const CertificateRecord& record,
                         RunCheck& check) {
  for (const auto& [name, certified] : record.files)
    collect_errors(check, name, [&] {
      const std::string found = beginning_digest(directory + "/" + name, certified.bytes);
      const bool same = found == certified.digest;
      add(check, name,
          same ? fmt::format("is that of the run up to the end of step {}", certified.step)
               : fmt::format("was changed before its byte {}: {}", certified.bytes,
                             other_digest("this part", found, certified.digest)),
          same);
    });
}

void check_data_record(const std::string& directory, const CertificateRecord& record,
                       RunCheck& check) {
  constexpr std::uint64_t largest = std::uint64_t{1} << 26;
  const auto text = read_file_if_exists(directory + "/data.json", largest, ExitCode::config);
  if (!text || record.starts.empty()) return;
  const std::string trained =
      "\"fingerprint\": \"" +
      record.starts.back().data.substr(std::min<std::size_t>(2, record.starts.back().data.size())) +
      '"';
  const bool same = text->find(trained) != std::string::npos;
  add(check, "data.json",
      same ? "has the fingerprint of the training data" : "lacks the run's " + trained, same);
}

using CertifiedSteps = std::map<std::int64_t, const CertificateRecord::Step*>;

// Empty if the line has the value. Numbers in metrics.jsonl have enough digits to read back equal.
std::string other_value(const nlohmann::json& line, const char* key, const std::string& certified) {
  const double value = std::strtod(certified.c_str(), nullptr);
  const auto found = line.find(key);
  const bool there = found != line.end();
  if (there &&
      (std::isfinite(value) ? found->is_number() && exact_text(found->get<double>()) == certified
                            : found->is_null()))  // non-finite values are null in JSON
    return {};
  return fmt::format("has {} at step {}, the certificate {}",
                     there ? fmt::format("{} {}", key, found->dump()) : fmt::format("no {}", key),
                     line["step"].dump(), value);
}

// Empty if the line's values for a step are right.
std::string wrong_value(const nlohmann::json& line, const CertifiedSteps& steps,
                        const CertificateRecord& record) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    return "is not a line of a run";
  const auto step = line["step"].get<std::int64_t>();
  if (line.contains("loss")) {
    const auto found = steps.find(step);
    if (found == steps.end()) return fmt::format("is of step {}, which is not certified", step);
    const std::string loss = other_value(line, "loss", found->second->loss);
    return loss.empty() ? other_value(line, "grad_norm", found->second->grad_norm) : loss;
  }
  const auto evaluated = record.evaluations.find(step);
  if (!line.contains("validation_loss") || evaluated == record.evaluations.end()) return {};
  return other_value(line, "validation_loss", evaluated->second);
}

// Why a line with right values is not the certificate's next one.
std::string wrong_digest(const CertificateRecord& record, std::size_t next,
                         const std::string& digest) {
  if (next == record.metrics.size()) return "is not certified";
  const auto begin = record.metrics.begin() + static_cast<std::ptrdiff_t>(next);
  const auto found = std::find_if(begin, record.metrics.end(),
                                  [&](const auto& one) { return one.digest == digest; });
  if (found != record.metrics.end())
    return fmt::format("follows a removed line, of step {}", begin->step);
  return "was changed: " + other_digest("the line", digest, begin->digest);
}

// Every line must be certified, in order. For starts of earlier versions, which come first, only
// the steps' losses and norms, and their last line may be ahead. A killed run may have certified a
// line that it did not write.
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
      return wrong(value.empty() ? wrong_digest(record, certified, digest) : value);
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
                  old_lines > 0 ? "; an earlier version certified nothing else of its lines"
                                : ", and every line is certified"),
      true);
}

std::string step_in(const WeightFiles& files) {
  const auto& metadata = files.file_of(files.names().front()).metadata();
  const auto found = metadata.find("step");
  return found == metadata.end() ? "?" : found->second;
}

void check_tensors(std::string_view what, const std::string& path, std::int64_t step,
                   const TensorDigests& tensors, RunCheck& check) {
  if (!fs::exists(path)) return add(check, what, "are not there", false);
  const WeightFiles files(path);
  // Weights of earlier versions have no step.
  if (const std::string found = step_in(files); found != "?" && found != fmt::format("{}", step))
    return add(check, what,
               fmt::format("have the step {} in their header, the run ended after {}", found, step),
               false);
  for (const std::string& name : files.names())
    if (!tensors.contains(name))
      return add(check, what, fmt::format("hold {}, which the run did not have", name), false);
  for (const auto& [name, digest] : tensors) {
    if (!files.contains(name)) return add(check, what, fmt::format("lack {}", name), false);
    const std::vector<float> values = files.read(name);
    const WholeTensor tensor{name, files.file_of(name).shape(name), values};
    if (const std::string found = digest_of({&tensor, 1}); found != digest)
      return add(check, what,
                 fmt::format("differ in {}: {}", name, other_digest("its values", found, digest)),
                 false);
  }
  add(check, what, fmt::format("are those of step {}: all {} tensors", step, tensors.size()), true);
}

void check_averages(const std::string& directory, const CertificateRecord& record,
                    RunCheck& check) {
  const std::string path = RunDirectory::averages_in(directory);
  if (!record.averages.empty())
    check_tensors("averages", path, record.weights_step, record.averages, check);
  else if (fs::exists(path) && record.weights_step > 0)
    add(check, "averages",
        "are not certified: an earlier version wrote the certificate, or the run had none", true);
}

void check_weights(const std::string& directory, const CertificateRecord& record, RunCheck& check) {
  const std::string path = RunDirectory::weights_in(directory);
  const bool there = fs::exists(path);
  if (record.weights_step == 0) {
    if (!there) return;
    const WeightFiles files(path);
    const std::string step = step_in(files);
    const std::int64_t last = record.steps.empty() ? 0 : record.steps.back().step;
    // A run that got more steps keeps the weights of its earlier end.
    const bool earlier = std::strtoll(step.c_str(), nullptr, 10) < last;
    const bool is_old = record.starts.empty() || record.starts.back().user_config.empty();
    return add(check, "weights",
               fmt::format("of step {} are not certified: {}", step,
                           earlier  ? "the run went on after them"
                           : is_old ? "the run was ended before it had"
                                    : "the end of the certificate is missing"),
               earlier || is_old);
  }
  check_tensors("weights", path, record.weights_step, record.tensors, check);
}

// The first tensor whose values differ from the run's; empty if none does.
std::string uncertified_tensor(const FoundCheckpoint& checkpoint, const CertificateRecord& record) {
  const auto after = record.tensors_after.find(checkpoint.step);
  const bool is_last = after == record.tensors_after.end();  // then compared with the weights
  const TensorDigests& certified = is_last ? record.tensors : after->second;
  const StoredValues stored = stored_values(checkpoint.path, checkpoint.manifest, ValueKind::model);
  StoredReader reader(stored);
  for (const auto& [name, tensor] : stored.tensors) {
    const std::vector<float> values = reader.whole(tensor);
    const WholeTensor whole{name, tensor.shape, values};
    const auto found = certified.find(name);
    if (found == certified.end() ||
        found->second !=
            (is_last ? digest_of({&whole, 1}) : digest_text(tensor_digest(name, values))))
      return name;
  }
  return {};
}

std::string finding_of(const FoundCheckpoint& checkpoint, const CertificateRecord& record,
                       bool& holds) {
  const std::vector<Damage> damage = verify_checkpoint(checkpoint.path, checkpoint.manifest);
  const bool certified =
      record.tensors_after.contains(checkpoint.step) || record.weights_step == checkpoint.step;
  const std::string other =
      damage.empty() && certified ? uncertified_tensor(checkpoint, record) : "";
  holds = damage.empty() && other.empty();
  if (!damage.empty()) return damage.front().describe();
  if (!other.empty()) return fmt::format("{} is not what the run had in that step", other);
  return certified ? "every checksum agrees, and every tensor with the certificate"
                   : "every checksum agrees; the certificate has no digests of its tensors";
}

void check_checkpoints(const std::string& directory, const CertificateRecord& record,
                       RunCheck& check) {
  for (const StepDirectory& found : list_checkpoints(RunDirectory::checkpoints_in(directory))) {
    const std::string name = fs::path(found.path).filename();
    collect_errors(check, name, [&] {
      const FoundCheckpoint checkpoint = open_checkpoint(found.path);
      if (record.steps.empty() || checkpoint.step > record.steps.back().step)
        return add(check, name, "is of a step after the end of the certificate", false);
      bool holds = false;
      const std::string finding = finding_of(checkpoint, record, holds);
      add(check, name, finding, holds);
    });
  }
}

}  // namespace

void add(RunCheck& check, std::string_view what, const std::string& finding, bool holds) {
  if (holds)
    check.lines.push_back(fmt::format("{:<20} {}", what, finding));
  else
    check.problems.push_back(fmt::format("{}: {}", what, finding));
}

std::string certificate_in(const std::string& directory) {
  if (!fs::is_directory(directory))
    fail(ExitCode::config, "{}: no such directory; give the directory of a run", directory);
  std::string path = directory + "/" + std::string(certificate_name);
  if (!fs::exists(path))
    fail(ExitCode::config, "{}: is not there; give the directory of a run", path);
  return path;
}

RunCheck verify_run(const std::string& directory) {
  RunCheck check;
  const CertificateRecord record = read_certificate(certificate_in(directory));
  check_chain(record, check);
  check_files(directory, record, check);
  check_growing_files(directory, record, check);
  collect_errors(check, "data.json", [&] { check_data_record(directory, record, check); });
  collect_errors(check, "metrics.jsonl", [&] { check_metrics(directory, record, check); });
  collect_errors(check, "weights", [&] { check_weights(directory, record, check); });
  collect_errors(check, "averages", [&] { check_averages(directory, record, check); });
  check_checkpoints(directory, record, check);
  return check;
}

}  // namespace trireme
