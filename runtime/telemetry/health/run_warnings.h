// SPDX-License-Identifier: Apache-2.0
// Warnings during a run, from its usual measurements: slow data, slow checkpoint writes, and signs
// of divergence. Built to be silent when nothing is wrong: each rule requires more than noise, and
// warns at most once in some minutes.
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
  // Minimum time between two warnings of one kind; 0: no warnings.
  double minutes = 10;
  std::vector<std::string> hosts{};  // by rank; may be empty
  // The path of a SlowRead's file number; "" if unknown. May be empty.
  std::function<std::string(std::uint64_t file)> path_of{};
  // The samples of a step's global batch; steps count from 1. May be empty.
  std::function<std::vector<std::int64_t>(std::int64_t step)> samples{};
  // The share of this rank's decoded chunks that it had decoded before. May be empty.
  std::function<double()> decoded_again{};
  std::function<void(const RunWarning&)> warn{};
};

// On rank 0. A metrics sink; warnings go to `warn`.
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
    zero_gradient,
    unbalanced_experts,
    expert_rounds,
    slowed_gpu
  };
  static constexpr std::array<std::string_view, 8> kinds{
      "slow_data",     "slow_checkpoint",    "gradient_norm", "loss_rising",
      "zero_gradient", "unbalanced_experts", "expert_rounds", "slowed_gpu"};

  void watch_data(const StepMetrics& metrics);
  [[nodiscard]] std::string slowest_reads() const;
  void watch_norm(const StepMetrics& metrics);
  void watch_loss(const StepMetrics& metrics);
  void end_block(const StepMetrics& metrics);
  void watch_experts(const StepMetrics& metrics);
  void watch_rounds(const StepMetrics& metrics);
  void watch_gpus(const StepMetrics& metrics);
  [[nodiscard]] bool may_warn(Kind kind, Time now);
  void warn(Kind kind, std::int64_t step, Time now, std::string text);
  [[nodiscard]] std::string samples_text(std::int64_t step) const;

  WarningSources sources_;
  std::array<std::optional<Time>, kinds.size()> last_{};

  // Waits for data since the last check.
  std::int64_t data_steps_ = 0, first_data_step_ = 0;
  double data_ms_ = 0, data_wait_ms_ = 0;
  struct Reads {
    double seconds = 0, bytes = 0;
  };
  // Slow reads of a rank in the steps where it waited longest; no seconds if it reported none.
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
  int rises_ = 0;            // consecutive blocks with a higher mean than the previous one
  // Of a layer: reads in a row with and without a collapsed load.
  struct Balance {
    int collapsed = 0, even = 0;
    bool warned = false;
  };
  std::map<std::string, Balance> balances_;
  std::int64_t round_steps_ = 0, passes_ = 0, in_rounds_ = 0;  // since the last check
  // Steps in a row with a slowed GPU.
  struct Slowed {
    std::int64_t steps = 0, step = 0;  // how many, and the first
    Time since{};
  };
  std::vector<Slowed> slowed_;  // by rank
  // For checkpoints.
  std::vector<double> rates_;        // MB/s, of the latest ones
  std::optional<Time> last_save_{};  // or the first step
};

}  // namespace trireme
