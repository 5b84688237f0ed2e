// SPDX-License-Identifier: Apache-2.0
// A run's certificate, certificate.jsonl: the program, machine and config, the results of every
// step, and digests of every tensor at some steps. Result lines form a chain: each has the XXH3-64
// of the previous digest and its own text, so the last one represents the whole run, and equal
// chains mean equal runs, for any number of stops and, in layout mode, any layouts. Each line also
// has the digest of all lines up to it, so lines can only be removed at the end. It detects
// accidents, not forgery.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/telemetry/lines/line_file.h"
#include "runtime/telemetry/metrics.h"

namespace trireme {

// One start of a run, and the step after which it begins.
struct CertificateStart {
  std::int64_t after = 0;
  std::string config{};                            // digest of config.yaml
  std::string user_config{};                       // digest of config.user.yaml
  std::string environment{};                       // digest of environment.json
  std::string data{};                              // fingerprint of the training data
  std::uint64_t seed = 0;                          // run.seed; 0 in starts of earlier versions
  std::string program{};                           // version, revision and build
  std::string binary{};                            // digest of the executable
  std::map<std::string, std::string> libraries{};  // "Open MPI" -> "4.1.4"
  std::string layout{};                            // "data 2 x tensor 1 x pipeline 1, ZeRO 0"
  std::string mode{};                              // reproducibility and precision: "layout, bf16"
  std::vector<std::string> hosts{};
  std::int64_t weight_digests = 0;  // telemetry.weight_digests
  std::chrono::system_clock::time_point time{};
};

inline constexpr std::string_view certificate_name = "certificate.jsonl";

// "0x0123456789abcdef" of XXH3-64.
[[nodiscard]] std::string digest_text(std::uint64_t digest);
// Exact and readable: "0x1.8p+1".
[[nodiscard]] std::string exact_text(double value);
// Digest of a regular file's bytes. Raises ExitCode::config if it cannot be read.
[[nodiscard]] std::string file_digest(const std::string& path);
// Digest of its first bytes.
[[nodiscard]] std::string beginning_digest(const std::string& path, std::uint64_t bytes);

using TensorDigests = std::map<std::string, std::string>;  // by name

// Rank 0 only. Errors are LineFile's.
class Certificate final : public MetricsSink {
 public:
  // Digest of the samples of a step (steps count from 1), in the order of the global batch.
  using Samples = std::function<std::uint64_t(std::int64_t step)>;
  // `goes_on`: keeps the lines up to start.after, which must not be of another run.
  Certificate(const std::string& path, const CertificateStart& start, bool goes_on, ItemKind items,
              Samples samples);
  // To certify the weights of a run that ended before it had done so: without a start, after the
  // lines up to `done`.
  Certificate(const std::string& path, std::int64_t done);

  void step(const StepMetrics& metrics) override;
  // Outside the chain, like failed saves and warnings: their number depends on interruptions.
  void evaluation(const EvaluationMetrics& metrics) override;
  void failed_save(const FailedSave& failed) override;
  void warning(const RunWarning& warning) override;
  void skipped(const SkippedBatch& skipped) override;
  // The digests of growing files of the run, as they are now. Outside the chain.
  void files(std::int64_t step, std::span<const std::string> paths);
  // The digest of every tensor after a step with a line. Outside the chain, because it depends on
  // the times of checkpoints.
  void tensors(std::int64_t step, const TensorDigests& tensors);
  // After the last step: a digest of all weights, and those of each tensor and of each averaged
  // tensor, if the run has them.
  void weights(std::int64_t step, const std::string& all, const TensorDigests& tensors,
               const TensorDigests& averages);
  // Of the last result line.
  [[nodiscard]] std::string chain() const { return digest_text(chain_); }

 private:
  // `text`: "{...", a line without its end. Results are chained, other lines not.
  void append(std::string text, std::string_view metrics_line);
  void result(std::string fields, std::string_view metrics_line);

  std::uint64_t chain_ = 0;
  std::uint64_t lines_ = 0;  // digest of all lines
  LineFile file_;
  ItemKind items_ = ItemKind::tokens;
  Samples samples_;
};

// A certificate as read; `problems` lists its violations.
struct CertificateRecord {
  struct Step {
    std::int64_t step = 0;
    std::string loss{}, grad_norm{}, samples{};
    std::string weights{};  // of some weights, telemetry.weight_digests; empty: none
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::vector<CertificateStart> starts{};
  std::vector<Step> steps{};
  // Lines of metrics.jsonl, in order; none for starts of earlier versions.
  struct MetricsLine {
    std::int64_t step = 0;
    std::string digest{};
  };
  std::vector<MetricsLine> metrics{};
  std::map<std::int64_t, std::string> evaluations{};  // by step: bits of the validation loss
  // Per step: the digest of every tensor after it.
  std::map<std::int64_t, TensorDigests> tensors_after{};
  // Growing files by name, at the last end of a start: their first bytes never change.
  struct File {
    std::int64_t step = 0;
    std::uint64_t bytes = 0;
    std::string digest{};
  };
  std::map<std::string, File> files{};
  std::int64_t weights_step = 0;  // 0: the run has not ended
  std::string weights{};
  TensorDigests tensors{}, averages{};
  std::string chain{};
  bool is_torn = false;  // the last line is incomplete, and ignored
  std::vector<std::string> problems{};
};
// Follows the chain from the first line to the last complete one. Raises ExitCode::config if the
// file does not exist.
[[nodiscard]] CertificateRecord read_certificate(const std::string& path);

}  // namespace trireme
