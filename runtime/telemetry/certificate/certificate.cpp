// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/certificate/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/line_reader.h"

namespace trireme {
namespace {

using Record = nlohmann::ordered_json;

constexpr std::string_view check_key = ",\"check\":\"";
constexpr std::string_view chain_key = ",\"chain\":\"";
// Behind the chain, for times are in it: the digest of the line of metrics.jsonl of the same
// report. Versions before had none.
constexpr std::string_view metrics_key = ",\"metrics\":\"";
constexpr std::size_t longest_line = std::size_t{1} << 30;  // has a digest of every tensor

std::uint64_t next_link(std::uint64_t before, std::string_view fields) {
  return checksum_of(fmt::format("{:016x}{}", before, fields));
}

std::string dumped(const Record& record) {
  return record.dump(-1, ' ', false, Record::error_handler_t::replace);
}

// How lines begin. Those of results are chained; others say which result they follow.
enum class LineKind : std::uint8_t { result, start, tensors, evaluation, note };
constexpr std::array<std::pair<std::string_view, LineKind>, 5> beginnings = {
    {{"{\"step\":", LineKind::result},
     {"{\"start_after\":", LineKind::start},
     {"{\"tensors_after\":", LineKind::tensors},
     {"{\"evaluation_after\":", LineKind::evaluation},
     {"{\"note_after\":", LineKind::note}}};

struct Line {
  std::int64_t step = 0;
  LineKind kind = LineKind::result;
  std::string_view fields;  // what its digest covers: "{...", without the digest itself
  std::string_view chain;   // of the results up to here
  std::string_view metrics;
};

// Nothing of a line that is none of ours.
std::optional<Line> split(std::string_view text) {
  const auto* const found = std::ranges::find_if(
      beginnings, [&](const auto& beginning) { return text.starts_with(beginning.first); });
  const std::size_t at = text.rfind(chain_key);
  if (found == beginnings.end() || at == std::string_view::npos || !text.ends_with("\"}"))
    return {};
  std::string_view chain = text.substr(at + chain_key.size()), metrics;
  chain.remove_suffix(2);
  if (const std::size_t end = chain.find('"'); end != std::string_view::npos) {
    if (!chain.substr(end + 1).starts_with(metrics_key)) return {};
    metrics = chain.substr(end + 1 + metrics_key.size());
    chain = chain.substr(0, end);
  }
  const std::string_view number = text.substr(found->first.size());
  Line line{
      .kind = found->second, .fields = text.substr(0, at), .chain = chain, .metrics = metrics};
  if (std::from_chars(number.data(), number.data() + number.size(), line.step).ec != std::errc())
    return {};
  return line;
}

std::uint64_t link_of(std::string_view text) {
  return text.starts_with("0x") ? std::strtoull(std::string(text).c_str(), nullptr, 16) : 0;
}

// The lines up to `done`; `chain` becomes that of the last of them.
std::optional<KeepLine> lines_up_to(bool goes_on, std::int64_t done, std::uint64_t& chain) {
  if (!goes_on) return {};
  return [done, &chain](std::string_view text) {
    const auto line = split(text);
    // Of a run that came to its end and gets more steps: its weights are no longer the last.
    if (!line || line->step > done || line->fields.find(",\"weights\":") != line->fields.npos)
      return false;
    chain = link_of(line->chain);
    return true;
  };
}

std::string end_of_line(const std::string& chain, std::string_view metrics_line) {
  if (metrics_line.empty()) return fmt::format("{}{}\"}}\n", chain_key, chain);
  return fmt::format("{}{}\"{}{}\"}}\n", chain_key, chain, metrics_key,
                     digest_text(checksum_of(metrics_line)));
}

// A line that leaves the chain as it is.
std::string beside_the_chain(const Record& record, const std::string& chain,
                             std::string_view metrics_line = {}) {
  std::string fields = dumped(record);
  fields.pop_back();
  const std::string check = digest_text(next_link(link_of(chain), fields));
  return fmt::format("{}{}{}\"{}", fields, check_key, check, end_of_line(chain, metrics_line));
}

std::string start_line(const CertificateStart& start, const std::string& chain) {
  const Record record = {{"start_after", start.after},
                         {"time", timestamp_text(start.time)},
                         {"config", start.config},
                         {"user_config", start.user_config},
                         {"environment", start.environment},
                         {"data", start.data},
                         {"program", start.program},
                         {"binary", start.binary},
                         {"libraries", start.libraries},
                         {"layout", start.layout},
                         {"mode", start.mode},
                         {"hosts", start.hosts},
                         {"weight_digests", start.weight_digests}};
  return beside_the_chain(record, chain);
}

CertificateStart start_of(const Record& record) {
  const auto text = [&](const char* key) { return record.value(key, std::string()); };
  return {.after = record.value("start_after", std::int64_t{0}),
          .config = text("config"),
          .user_config = text("user_config"),
          .environment = text("environment"),
          .data = text("data"),
          .program = text("program"),
          .binary = text("binary"),
          .libraries = record.value("libraries", std::map<std::string, std::string>()),
          .layout = text("layout"),
          .mode = text("mode"),
          .hosts = record.value("hosts", std::vector<std::string>()),
          .weight_digests = record.value("weight_digests", std::int64_t{0})};
}

// Reads lines and follows the chain.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  void line(std::string_view text) {
    ++number_;
    const auto line = split(text);
    const auto record = Record::parse(text, nullptr, false);
    if (!line || record.is_discarded()) return problem("is no line of a certificate");
    try {
      line->kind == LineKind::result ? result(*line, record) : beside(*line, record);
      if (!line->metrics.empty())
        record_.metrics.push_back({line->step, std::string(line->metrics)});
    } catch (const Record::exception&) {
      problem("has values of a wrong kind");
    }
  }
  void too_long(std::int64_t lines) {
    if (lines > 0) record_.problems.push_back(path_ + ": has lines that are too long for any run");
  }
  [[nodiscard]] CertificateRecord take(bool is_torn) {
    record_.chain = digest_text(chain_);
    record_.is_torn = is_torn;
    return std::move(record_);
  }

 private:
  void problem(std::string_view what) {
    constexpr std::size_t enough = 3;
    if (record_.problems.size() < enough)
      record_.problems.push_back(fmt::format("{}:{}: {}", path_, number_, what));
  }

  void beside(const Line& line, const Record& record) {
    const std::size_t at = line.fields.rfind(check_key);
    if (line.chain != digest_text(chain_)) problem("does not follow from the line before");
    if (at == std::string_view::npos ||
        record.value("check", "") !=
            digest_text(next_link(link_of(line.chain), line.fields.substr(0, at))))
      problem("was changed after it was written");
    if (line.kind == LineKind::start) return record_.starts.push_back(start_of(record));
    if (line.kind == LineKind::evaluation)
      record_.evaluations[line.step] = record.value("validation_loss", "");
    if (line.kind == LineKind::tensors)
      record_.tensors_after[line.step] =
          record.value("tensors", std::map<std::string, std::string>());
  }

  void result(const Line& line, const Record& record) {
    const std::uint64_t expected = next_link(chain_, line.fields);
    if (line.chain != digest_text(expected))
      problem("does not follow from the line before: it, or one before it, was changed");
    chain_ = link_of(line.chain);  // what comes behind is judged by itself
    if (record.contains("loss")) {
      if (!record_.steps.empty() && line.step != record_.steps.back().step + 1)
        problem(fmt::format("is of step {}, behind step {}", line.step, record_.steps.back().step));
      record_.steps.push_back({line.step, record.value("loss", ""), record.value("grad_norm", ""),
                               record.value("samples", ""), record.value("weight_digest", "")});
    }
    if (!record.contains("weights")) return;
    record_.weights_step = line.step;
    record_.weights = record.value("weights", "");
    record_.tensors = record.value("tensors", std::map<std::string, std::string>());
  }

  const std::string& path_;
  std::int64_t number_ = 0;
  std::uint64_t chain_ = 0;
  CertificateRecord record_;
};

}  // namespace

std::string digest_text(std::uint64_t digest) {
  return fmt::format("0x{:016x}", digest);
}

std::string exact_text(double value) {
  return fmt::format("{:a}", value);
}

std::string file_digest(const std::string& path) {
  return digest_text(file_checksum(path, ExitCode::config));
}

Certificate::Certificate(const std::string& path, const CertificateStart& start, bool goes_on,
                         ItemKind items, Samples samples)
    : file_(path, lines_up_to(goes_on, start.after, chain_)),
      items_(items),
      samples_(std::move(samples)) {
  file_.append(start_line(start, chain()));
}

Certificate::Certificate(const std::string& path, std::int64_t done)
    : file_(path, lines_up_to(/*goes_on=*/true, done, chain_)) {}

void Certificate::result(const std::string& fields, std::string_view metrics_line) {
  chain_ = next_link(chain_, fields);
  file_.append(fields + end_of_line(chain(), metrics_line));
}

void Certificate::step(const StepMetrics& metrics) {
  const std::string weights =
      metrics.weight_digest
          ? fmt::format(",\"weight_digest\":\"{}\"", digest_text(*metrics.weight_digest))
          : std::string();
  result(fmt::format("{{\"step\":{},\"loss\":\"{}\",\"grad_norm\":\"{}\",\"samples\":\"{}\"{}",
                     metrics.step, exact_text(metrics.loss), exact_text(metrics.grad_norm),
                     digest_text(samples_(metrics.step)), weights),
         format_json(metrics, items_));
}

void Certificate::evaluation(const EvaluationMetrics& metrics) {
  file_.append(beside_the_chain({{"evaluation_after", metrics.step},
                                 {"validation_loss", exact_text(metrics.validation_loss)}},
                                chain(), format_json(metrics)));
}

void Certificate::failed_save(const FailedSave& failed) {
  file_.append(beside_the_chain({{"note_after", failed.step}}, chain(), format_json(failed)));
}

void Certificate::warning(const RunWarning& warning) {
  file_.append(beside_the_chain({{"note_after", warning.step}}, chain(), format_json(warning)));
}

void Certificate::tensors(std::int64_t step, const std::map<std::string, std::string>& tensors) {
  file_.append(beside_the_chain({{"tensors_after", step}, {"tensors", tensors}}, chain()));
}

void Certificate::skipped(const SkippedBatch& skipped) {
  result(fmt::format("{{\"step\":{},\"skipped\":\"spike\"", skipped.step), format_json(skipped));
}

void Certificate::weights(std::int64_t step, const std::string& all,
                          const std::map<std::string, std::string>& tensors) {
  std::string fields = dumped({{"step", step}, {"weights", all}, {"tensors", tensors}});
  fields.pop_back();
  result(fields, {});
}

CertificateRecord read_certificate(const std::string& path) {
  LineReader lines(path, longest_line, ExitCode::config);
  Reader reader(path);
  while (const auto line = lines.next())
    reader.line(*line);
  reader.too_long(lines.too_long());
  return reader.take(lines.torn_end());
}

}  // namespace trireme
