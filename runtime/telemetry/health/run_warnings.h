// SPDX-License-Identifier: Apache-2.0
// Warnings while a run goes on, from what it measures anyway: data that comes slowly, checkpoints
// that are written slowly, and signs of a training that diverges. Made to be silent where nothing
// is wrong: each rule asks for more than noise, and tells of its trouble once in some minutes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/telemetry/metrics.h"

namespace trireme {

struct WarningSources {
  // Between two warnings of one kind; 0: no warnings.
  double minutes = 10;
  std::vector<std::string> hosts{};  // by rank; may be empty
  // The path for which the number of a SlowRead stands; "" where it is not known. May be empty.
  std::function<std::string(std::uint64_t file)> path_of{};
  // Of a step's global batch; steps count from 1. May be empty.
  std::function<std::vector<std::int64_t>(std::int64_t step)> samples{};
  // Of the chunks that this rank decoded, the share that had been before. May be empty.
  std::function<double()> decoded_again{};
  std::function<void(const RunWarning&)> warn{};
};

// Rank 0's. A sink as the others; what it finds goes to `warn`.
class RunWarnings final : public MetricsSink {
 public:
  explicit RunWarnings(WarningSources sources);

  void step(const StepMetrics& metrics) override;
  void saved(const SavedCheckpoint& saved) override;
  void evaluation(const EvaluationMetrics& /*metrics*/) override {}

 private:
  using Time = std::chrono::system_clock::time_point;
  enum Kind : std::uint8_t {
    slow_data,
    slow_checkpoint,
    gradient_norm,
    loss_rising,
    zero_gradient
  };
  static constexpr std::array<std::string_view, 5> kinds{
      "slow_data", "slow_checkpoint", "gradient_norm", "loss_rising", "zero_gradient"};

  void watch_data(const StepMetrics& metrics);
  [[nodiscard]] std::string slowest_reads() const;
  void watch_norm(const StepMetrics& metrics);
  void watch_loss(const StepMetrics& metrics);
  void end_block(const StepMetrics& metrics);
  [[nodiscard]] bool may_warn(Kind kind, Time now);
  void warn(Kind kind, std::int64_t step, Time now, std::string text);
  [[nodiscard]] std::string samples_text(std::int64_t step) const;

  WarningSources sources_;
  std::array<std::optional<Time>, kinds.size()> last_{};

  // Waits for data since the last judgement.
  std::int64_t data_steps_ = 0, first_data_step_ = 0;
  double data_ms_ = 0, data_wait_ms_ = 0;
  struct Reads {
    double seconds = 0, bytes = 0;
  };
  // In the steps in which a rank waited longest; of none that it told of, no seconds.
  struct Reader {
    double wait_ms = 0;
    std::map<std::uint64_t, Reads> files{};  // by number
  };
  std::map<int, Reader> readers_;  // by rank
  // Running mean and variance of the logarithm of the gradient norm.
  std::int64_t norms_ = 0, zeros_ = 0;
  double norm_mean_ = 0, norm_variance_ = 0;
  // Means of blocks of steps.
  struct Block {
    std::int64_t steps = 0;
    double sum = 0, squares = 0;
  };
  Block block_;
  std::optional<double> lowest_mean_{}, last_mean_{};
  double lowest_error_ = 0;  // standard error of that mean
  int rises_ = 0;            // blocks in a row whose mean is above the one before
  // Of checkpoints.
  std::vector<double> rates_;        // MB/s, of the last ones
  std::optional<Time> last_save_{};  // or the first step
};

}  // namespace trireme
