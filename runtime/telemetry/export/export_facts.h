// SPDX-License-Identifier: Apache-2.0
// Facts of a run, besides its metrics, in files for other tools.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/telemetry/metric_table.h"
#include "runtime/telemetry/metrics.h"

namespace trireme {

struct ExportFacts {
  std::string directory{};  // of the run; exists
  std::string name{};       // run.directory as the user wrote it
  ItemKind items = ItemKind::tokens;
  std::optional<std::int64_t> done{};                       // steps before a resumed run
  std::string config{};                                     // YAML
  std::vector<std::pair<std::string, std::string>> keys{};  // "train.steps", "1000"
  std::string command_line{};
  std::chrono::system_clock::time_point start{};
  // Time between flushes: the most that a kill may lose.
  std::chrono::milliseconds flush_every = std::chrono::seconds(10);
};

// A sink that writes files for another tool and is notified of the run's end.
enum class RunEnd : std::uint8_t { done, stopped, failed };  // stopped: has a checkpoint to resume

class Exporter : public MetricsSink {
 public:
  // Everything reported is in the files, or available to readers.
  virtual void flush() = 0;
  // Called occasionally, for live readers: writes what is final.
  virtual void write_out() { flush(); }
  // The last call; if it is missing, the process was killed. Completes the files.
  virtual void finish(RunEnd end) = 0;
};

// Names of exported metrics, made from those in metrics.jsonl.

// For TensorBoard, which shows what comes before the slash as a group (scripts/export_run.py gives
// W&B and MLflow the same names): "train/loss", "time/forward_ms"; of an evaluation
// "evaluation/accuracy", and of one source of its data "evaluation_SOURCE/accuracy".
[[nodiscard]] std::string grouped_name(const StepMetric& metric, ItemKind kind);
[[nodiscard]] std::string grouped_name(const EvaluationMetric& metric,
                                       const std::string& source = "");

// What an evaluation says of the sources that have sets of their own, by rows of the same table.
struct SourceValue {
  const EvaluationMetric* metric;
  std::string source;
  double value;
};
[[nodiscard]] std::vector<SourceValue> values_of_sources(const EvaluationMetrics& metrics);

// "meaning (unit)"
[[nodiscard]] std::string description_of(const MetricInfo& metric, ItemKind kind);

}  // namespace trireme
