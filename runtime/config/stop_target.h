// SPDX-License-Identifier: Apache-2.0
// train.stop_at: training ends at the first evaluation whose metric passes the target, or by
// train.patience after some without a better one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr std::string_view loss_metric = "eval_loss", patience_metric = "patience";

struct StopTarget {
  std::string metric;  // "" = none
  std::optional<double> below{}, above{};

  [[nodiscard]] bool given() const { return *this != StopTarget{}; }
  // Not by NaN.
  [[nodiscard]] bool passed_by(double value) const {
    return (below && value < *below) || (above && value > *above);
  }
  friend bool operator==(const StopTarget&, const StopTarget&) = default;
};

// The value of an evaluation that passed the target. It is stored with the state after that step,
// so that a run does not go on past it.
struct ReachedTarget {
  std::string metric;
  double value = 0;

  // By train.patience: the evaluations without a better one.
  [[nodiscard]] bool is_patience() const { return metric == patience_metric; }
  // That ended the run.
  [[nodiscard]] std::string_view key() const {
    return is_patience() ? "train.patience" : "train.stop_at";
  }
  // Whether it passes `target` too, which may have been changed since.
  [[nodiscard]] bool passes(const StopTarget& target) const {
    return metric == target.metric && target.passed_by(value);
  }
};

// "eval_loss 3.29", which reads back to the same bits; "" for none.
[[nodiscard]] std::string stored_text(const std::optional<ReachedTarget>& reached);
[[nodiscard]] std::optional<ReachedTarget> reached_target(std::string_view stored);
// "eval_loss 3.29 is below 3.3", or "... is not below 3.3".
[[nodiscard]] std::string describe(const StopTarget& target, double value);
// The same of what ended a run, by train.stop_at or train.patience.
[[nodiscard]] std::string describe(const StopTarget& target, const ReachedTarget& reached);

}  // namespace trireme
