// SPDX-License-Identifier: Apache-2.0
// One line of metrics.jsonl, for all readers of that file.
//   MetricsLine line;
//   while (const auto text = reader.next())
//     if (line.parse(*text) == MetricsLine::Kind::step) use(line.step(), line.number("loss"));
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/telemetry/expert_load.h"

namespace trireme::runs {

class MetricsLine {
 public:
  enum class Kind : std::uint8_t {
    broken,      // incomplete, no object, or without a step
    other,       // of another version
    step,        // has "loss"
    evaluation,  // has "validation_loss"
    skipped,     // a batch
    failed_save,
    warning
  };
  // Parses a line without its end, replacing the previous one; reuses memory.
  Kind parse(std::string_view text);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool is_step() const { return kind_ == Kind::step; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] const std::string& timestamp() const { return timestamp_; }

  struct Number {
    std::string key{};
    double value = 0;  // NaN for null
  };
  [[nodiscard]] std::span<const Number> numbers() const { return {numbers_.data(), count_}; }
  // Null if the line has no number of that name; a JSON null counts as one.
  [[nodiscard]] const double* find(std::string_view key) const;
  // `otherwise` if it is missing or null.
  [[nodiscard]] double number(std::string_view key, double otherwise = unknown) const;
  // The unit: "tokens" or "images"; empty if the line has neither rate.
  [[nodiscard]] std::string_view items() const;
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  // The text of `key` in a skipped batch, failed save or warning, other values as JSON; empty if it
  // is missing.
  [[nodiscard]] std::string text(std::string_view key) const;
  // In an evaluation: the loss per source, by name.
  using SourceLosses = std::vector<std::pair<std::string, double>>;
  [[nodiscard]] const SourceLosses& sources() const { return sources_; }
  // In a step: the load of experts by layer, if it was read.
  [[nodiscard]] const std::vector<ExpertLoad>& loads() const { return loads_; }

 private:
  class Scanner;
  [[nodiscard]] Kind kind_of(std::string_view text, bool document);
  void read_sources(std::string_view text);
  void read_loads(std::string_view text);
  [[nodiscard]] Kind read_event(std::string_view text);

  Kind kind_ = Kind::broken;
  std::int64_t step_ = 0;
  std::string timestamp_{}, key_{};
  std::vector<Number> numbers_{};  // the first `count_` are of this line
  std::size_t count_ = 0;
  std::vector<std::pair<std::string, std::string>> texts_{};
  SourceLosses sources_{};
  std::vector<ExpertLoad> loads_{};
};

}  // namespace trireme::runs
