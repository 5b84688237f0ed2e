// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/certificate/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/line_reader.h"

namespace trireme {
namespace {

using Record = nlohmann::ordered_json;

constexpr std::string_view check_key = ",\"check\":\"";
constexpr std::string_view chain_key = ",\"chain\":\"";
// The digest of this report's line in metrics.jsonl. Not part of the chain, because that line has
// times. Missing in earlier versions.
constexpr std::string_view metrics_key = ",\"metrics\":\"";
// The digest of all lines up to this one, chained or not. Earlier versions only had a digest per
// unchained line, under check_key.
constexpr std::string_view lines_key = ",\"lines\":\"";
constexpr std::size_t longest_line = std::size_t{1} << 30;  // holds a digest per tensor

std::uint64_t next_link(std::uint64_t before, std::string_view fields) {
  return checksum_of(fmt::format("{:016x}{}", before, fields));
}

std::string dumped(const Record& record) {
  return record.dump(-1, ' ', false, Record::error_handler_t::replace);
}

// First keys of lines. Result lines are chained; others name the result that they follow.
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
  std::string_view fields;  // covered by its digest: "{...", without the digest itself
  std::string_view chain;   // of the results so far
  std::string_view metrics;
  std::string_view covered;  // the part of this line that `lines` covers
  std::string_view lines;
};

// Empty if the line is no certificate line.
std::optional<Line> split(std::string_view text) {
  const auto* const found = std::ranges::find_if(
      beginnings, [&](const auto& beginning) { return text.starts_with(beginning.first); });
  const std::size_t at = text.rfind(chain_key);
  if (found == beginnings.end() || at == std::string_view::npos || !text.ends_with("\"}"))
    return {};
  std::string_view rest = text.substr(at, text.size() - 1 - at);
  const auto next = [&rest](std::string_view key) {
    if (!rest.starts_with(key)) return std::string_view();
    const std::string_view value = rest.substr(key.size(), rest.find('"', key.size()) - key.size());
    rest.remove_prefix(key.size() + value.size() + 1);
    return value;
  };
  const std::string_view number = text.substr(found->first.size());
  Line line;
  line.kind = found->second;
  line.fields = text.substr(0, at);
  line.chain = next(chain_key);
  line.metrics = next(metrics_key);
  line.covered = text.substr(0, text.size() - 1 - rest.size());
  line.lines = next(lines_key);
  if (!rest.empty()) return {};
  if (std::from_chars(number.data(), number.data() + number.size(), line.step).ec != std::errc())
    return {};
  return line;
}

std::uint64_t link_of(std::string_view text) {
  return text.starts_with("0x") ? std::strtoull(std::string(text).c_str(), nullptr, 16) : 0;
}

// The lines up to `done`; sets `chain` and `lines` to those of the last one.
std::optional<KeepLine> lines_up_to(bool goes_on, std::int64_t done, std::uint64_t& chain,
                                    std::uint64_t& lines) {
  if (!goes_on) return {};
  return [done, &chain, &lines](std::string_view text) {
    const auto line = split(text);
    // A line with weights: a finished run is extended, so they are no longer final.
    if (!line || line->step > done || line->fields.find(",\"weights\":") != line->fields.npos)
      return false;
    chain = link_of(line->chain);
    lines = next_link(lines, line->covered);
    return true;
  };
}

// Without the closing brace: "{...".
std::string open_text(const Record& record) {
  std::string text = dumped(record);
  text.pop_back();
  return text;
}

std::string start_fields(const CertificateStart& start) {
  return open_text({{"start_after", start.after},
                    {"time", timestamp_text(start.time)},
                    {"config", start.config},
                    {"user_config", start.user_config},
                    {"environment", start.environment},
                    {"data", start.data},
                    {"seed", start.seed},
                    {"program", start.program},
                    {"binary", start.binary},
                    {"libraries", start.libraries},
                    {"layout", start.layout},
                    {"mode", start.mode},
                    {"hosts", start.hosts},
                    {"weight_digests", start.weight_digests}});
}

CertificateStart start_of(const Record& record) {
  const auto text = [&](const char* key) { return record.value(key, std::string()); };
  return {.after = record.value("start_after", std::int64_t{0}),
          .config = text("config"),
          .user_config = text("user_config"),
          .environment = text("environment"),
          .data = text("data"),
          .seed = record.value("seed", std::uint64_t{0}),
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
    if (!line || record.is_discarded()) return problem("is not a line of a certificate");
    try {
      const std::string lines = digest_text(next_link(lines_, line->covered));
      const bool follows = line->lines.empty() || line->lines == lines;
      // The following lines are judged separately.
      lines_ = link_of(follows ? lines : line->lines);
      line->kind == LineKind::result ? result(*line, record, follows)
                                     : beside(*line, record, follows);
      if (!line->metrics.empty())
        record_.metrics.push_back({line->step, std::string(line->metrics)});
    } catch (const Record::exception&) {
      problem("has values of a wrong type");
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

  void unlinked() { problem("was changed, or a line before it was changed or removed"); }

  void beside(const Line& line, const Record& record, bool follows) {
    const std::size_t at = line.fields.rfind(check_key);
    const bool unchanged =
        !line.lines.empty() ||  // else from an earlier version
        (at != std::string_view::npos &&
         record.value("check", "") ==
             digest_text(next_link(link_of(line.chain), line.fields.substr(0, at))));
    if (!follows || !unchanged || line.chain != digest_text(chain_)) unlinked();
    if (line.kind == LineKind::start) return record_.starts.push_back(start_of(record));
    const Record files = record.value("files", Record::object());
    for (const auto& [name, file] : files.items())
      record_.files[name] = {line.step, file.at("bytes"), file.at("digest")};
    if (line.kind == LineKind::evaluation)
      record_.evaluations[line.step] = record.value("validation_loss", "");
    if (line.kind == LineKind::tensors)
      record_.tensors_after[line.step] = record.value("tensors", TensorDigests());
  }

  void result(const Line& line, const Record& record, bool follows) {
    if (!follows || line.chain != digest_text(next_link(chain_, line.fields))) unlinked();
    chain_ = link_of(line.chain);  // the following lines are judged separately
    if (record.contains("loss")) {
      if (!record_.steps.empty() && line.step != record_.steps.back().step + 1)
        problem(fmt::format("is of step {}, after step {}", line.step, record_.steps.back().step));
      record_.steps.push_back({line.step, record.value("loss", ""), record.value("grad_norm", ""),
                               record.value("samples", ""), record.value("weight_digest", "")});
    }
    if (!record.contains("weights")) return;
    record_.weights_step = line.step;
    record_.weights = record.value("weights", "");
    record_.tensors = record.value("tensors", TensorDigests());
    record_.averages = record.value("averages", TensorDigests());
  }

  const std::string& path_;
  std::int64_t number_ = 0;
  std::uint64_t chain_ = 0, lines_ = 0;
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

std::string beginning_digest(const std::string& path, std::uint64_t bytes) {
  constexpr std::uint64_t block = std::uint64_t{1} << 22;
  const auto file = open_regular_file(path, ExitCode::config);
  Checksum sum;
  for (std::uint64_t at = 0; at < bytes; at += block) {
    const std::string part = bytes_at(file, at, std::min(block, bytes - at));
    sum.update(std::as_bytes(std::span(part)));
  }
  return digest_text(sum.value());
}

Certificate::Certificate(const std::string& path, const CertificateStart& start, bool goes_on,
                         ItemKind items, Samples samples)
    : file_(path, lines_up_to(goes_on, start.after, chain_, lines_)),
      items_(items),
      samples_(std::move(samples)) {
  append(start_fields(start), {});
}

Certificate::Certificate(const std::string& path, std::int64_t done)
    : file_(path, lines_up_to(/*goes_on=*/true, done, chain_, lines_)) {}

void Certificate::append(std::string text, std::string_view metrics_line) {
  text += fmt::format("{}{}\"", chain_key, chain());
  if (!metrics_line.empty())
    text += fmt::format("{}{}\"", metrics_key, digest_text(checksum_of(metrics_line)));
  lines_ = next_link(lines_, text);
  file_.append(fmt::format("{}{}{}\"}}\n", text, lines_key, digest_text(lines_)));
}

void Certificate::result(std::string fields, std::string_view metrics_line) {
  chain_ = next_link(chain_, fields);
  append(std::move(fields), metrics_line);
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
  append(open_text({{"evaluation_after", metrics.step},
                    {"validation_loss", exact_text(metrics.validation_loss)}}),
         format_json(metrics));
}

void Certificate::failed_save(const FailedSave& failed) {
  append(open_text({{"note_after", failed.step}}), format_json(failed));
}

void Certificate::warning(const RunWarning& warning) {
  append(open_text({{"note_after", warning.step}}), format_json(warning));
}

void Certificate::files(std::int64_t step, std::span<const std::string> paths) {
  Record files = Record::object();
  for (const std::string& path : paths) {
    std::error_code missing;
    // Of larger files the beginning: a second of reading at most.
    const std::uintmax_t bytes = std::min<std::uintmax_t>(std::filesystem::file_size(path, missing),
                                                          std::uintmax_t{1} << 30);
    if (!missing)
      files[std::filesystem::path(path).filename().string()] = {
          {"bytes", bytes}, {"digest", beginning_digest(path, bytes)}};
  }
  append(open_text({{"note_after", step}, {"files", std::move(files)}}), {});
}

void Certificate::tensors(std::int64_t step, const TensorDigests& tensors) {
  append(open_text({{"tensors_after", step}, {"tensors", tensors}}), {});
}

void Certificate::skipped(const SkippedBatch& skipped) {
  result(fmt::format("{{\"step\":{},\"skipped\":\"spike\"", skipped.step), format_json(skipped));
}

void Certificate::weights(std::int64_t step, const std::string& all, const TensorDigests& tensors,
                          const TensorDigests& averages) {
  Record record = {{"step", step}, {"weights", all}, {"tensors", tensors}};
  if (!averages.empty()) record["averages"] = averages;
  result(open_text(record), {});
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
