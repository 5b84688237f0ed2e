// SPDX-License-Identifier: Apache-2.0
// Reports of training steps and evaluations, and metrics.jsonl, the file that stores them: one JSON
// object per line and step. Key names are a contract; scripts read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/telemetry/expert_load.h"
#include "runtime/telemetry/health/gpu_state.h"
#include "runtime/telemetry/lines/line_file.h"
#include "runtime/telemetry/quality.h"
#include "runtime/telemetry/snapshots.h"
#include "runtime/telemetry/times.h"

namespace trireme {

// The unit of throughput: the word before "/s" on the console and before "_per_s" in metrics.jsonl.
enum class ItemKind : std::uint8_t { tokens, images, samples };

[[nodiscard]] std::string_view name_of(ItemKind kind);

// The rank that waited longest for its data in a step.
struct SlowRead {
  int rank = 0;
  double wait_ms = 0;
  // The file with its longest reads since its last report, as a number for its path; 0: none.
  std::uint64_t file = 0;
  double seconds = 0, bytes = 0;  // of these reads, over all threads
};

// Of experts that several ranks share out, over all passes of micro-batches through their layers.
struct ExpertTraffic {
  std::int64_t passes = 0, in_rounds = 0;  // all, and those of several rounds
  double off_rank = 0, off_node = 0;       // shares of the rows that leave their rank, their host
  double rank_load = 1;  // rows of each pass's fullest rank by those of the mean rank
};

// One optimizer step.
struct StepMetrics {
  std::int64_t step = 0;  // 1 after the first step
  double loss = 0;        // mean over the global batch
  double learning_rate = 0;
  double grad_norm = 0;                 // before clipping
  std::int64_t items = 0;               // tokens or images of this step, over all ranks
  std::int64_t targets = 0;             // number counted in the loss; written if not all are
  std::int64_t targets_per_item = 1;    // values or pixels of a sample; 1 for tokens and labels
  double flops = 0;                     // of the model's own operations; 0 = unknown
  double peak_flops = 0;                // per second, of all ranks; 0 = unknown
  Times times{};                        // milliseconds, means over the ranks
  std::optional<double> loss_scale{};   // of this step, if the loss is scaled
  std::int64_t skipped_steps = 0;       // up to and with this one, because of gradient overflows
  std::int64_t non_finite_steps = 0;    // of this run, skipped without a loss scale to fix it
  std::optional<double> noise_scale{};  // samples; in steps that measure it
  double noise_trace = 0, noise_square = 0;  // this step's estimates of its two parts
  std::optional<std::int64_t> spikes{};      // up to and with this one, if there is a spike rule
  // Of the weights digested after this step (telemetry.weight_digests).
  std::optional<std::uint64_t> weight_digest{};
  std::optional<double> joules{};          // since the previous report, if all of it is counted
  std::vector<GpuState> gpus{};            // by rank; empty if no rank has a reading
  std::optional<SlowRead> slow_read{};     // if a rank waited for data
  std::vector<ExpertLoad> expert_loads{};  // by layer, in steps that read them
  std::optional<ExpertTraffic> expert_traffic{};
  double epoch = 0;                              // passes over the data, up to and with this step
  std::int64_t items_seen = 0;                   // tokens or images, up to and with this step
  std::chrono::system_clock::time_point time{};  // when it was reported
};

// A step with a loss spike, whose update was skipped.
struct SkippedBatch {
  std::int64_t step = 0;
  double zscore = 0;                  // of its loss against the running mean
  std::vector<std::int64_t> samples;  // of the global batch
  std::chrono::system_clock::time_point time{};
};

// A checkpoint that could not be written.
struct FailedSave {
  std::int64_t step = 0;
  std::string problem{};  // rank, file and reason
  std::int64_t in_a_row = 1;
  std::chrono::system_clock::time_point time{};
};

// A checkpoint that was written.
struct SavedCheckpoint {
  std::int64_t step = 0;
  std::string path{};
  std::uint64_t bytes = 0;  // of rank 0
  double seconds = 0;       // from the start of the save to its commit
  double stall_ms = 0;      // that training waited for it
  std::chrono::system_clock::time_point time{};
};

// A problem that a person should look at during the run.
struct RunWarning {
  std::int64_t step = 0;
  std::string kind{};  // "slow_data", ...: health/run_warnings.h
  std::string text{};
  std::chrono::system_clock::time_point time{};
};

// Steps after the checkpoint from which a run continued: wasted work.
struct LostSteps {
  std::int64_t steps = 0;
  double seconds = 0;  // including evaluations after them
};

struct EvaluationMetrics {
  std::int64_t step = 0;
  double validation_loss = 0;
  Qualities quality{};
  struct Source {
    std::string name{};
    double loss = 0;
    Qualities quality{};
  };
  std::vector<Source> sources{};  // if several have a validation set
  double evaluation_ms = 0;
  std::chrono::system_clock::time_point time{};
};

// One JSON object and a newline. Losses, norms, scales and learning rates have digits that read
// back equal, times and rates are in thousandths; NaN and infinity print as null and add
// "non_finite":true. "timestamp" is UTC, as "2026-11-22T12:01:02.345Z".
[[nodiscard]] std::string format_json(const StepMetrics& metrics, ItemKind kind);
[[nodiscard]] std::string format_json(const EvaluationMetrics& metrics);
[[nodiscard]] std::string format_json(const SkippedBatch& skipped);
[[nodiscard]] std::string format_json(const FailedSave& failed);
[[nodiscard]] std::string format_json(const RunWarning& warning);

// Destination of a run's reports: the log, the console, files for other tools. Rank 0 only. The
// training thread calls it, steps in order; a slow sink delays the run.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void step(const StepMetrics& metrics) = 0;
  virtual void evaluation(const EvaluationMetrics& metrics) = 0;
  // Optional for sinks.
  virtual void skipped(const SkippedBatch& /*skipped*/) {}
  virtual void failed_save(const FailedSave& /*failed*/) {}
  virtual void saved(const SavedCheckpoint& /*saved*/) {}
  virtual void warning(const RunWarning& /*warning*/) {}
  virtual void histograms(const StepHistograms& /*histograms*/) {}
  virtual void samples(const ModelSamples& /*samples*/) {}
};

// Forwards everything in list order; an error of one keeps it from the following ones.
class MetricsSinks final : public MetricsSink {
 public:
  // `sink` must outlive this.
  void add(MetricsSink& sink) { sinks_.push_back(&sink); }
  // Called before forwarding; an error that it raises keeps the report from all sinks.
  void check_first(std::function<void()> check) { check_ = std::move(check); }

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void skipped(const SkippedBatch& skipped) override;
  void failed_save(const FailedSave& failed) override;
  void saved(const SavedCheckpoint& saved) override;
  void warning(const RunWarning& warning) override;
  void histograms(const StepHistograms& histograms) override;
  void samples(const ModelSamples& samples) override;

 private:
  template <class Report>
  void pass_on(void (MetricsSink::*call)(const Report&), const Report& report);

  std::function<void()> check_;
  std::vector<MetricsSink*> sinks_;
};

// metrics.jsonl of a run; rank 0 only. Errors are LineFile's.
class MetricsLog final : public MetricsSink {
 public:
  // A run continued after `done` steps keeps the lines up to them; a new run has no file yet.
  MetricsLog(std::string path, ItemKind kind, std::optional<std::int64_t> done = {});

  void step(const StepMetrics& metrics) override;
  void evaluation(const EvaluationMetrics& metrics) override;
  void skipped(const SkippedBatch& skipped) override;
  void failed_save(const FailedSave& failed) override;
  void warning(const RunWarning& warning) override;
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  // The steps whose lines a continued run has dropped.
  [[nodiscard]] const LostSteps& lost() const { return lost_; }

 private:
  ItemKind kind_;
  LostSteps lost_;
  LineFile file_;
};

}  // namespace trireme
