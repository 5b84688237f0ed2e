// SPDX-License-Identifier: Apache-2.0
// The rules of resolve_config, one function per subject. Each raises ExitCode::config through
// refuse().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"

namespace trireme::config {

struct Subject {
  const KeyTable& keys;
  const Config& config;
  const Environment& environment;
  const Provenance& where;
  Purpose purpose;
  ModelLimits limits{};  // of the model, once its own keys are checked

  [[nodiscard]] const ModelFamily& family() const { return keys.family_of(config); }
};

// The same with `known` limits of this model, whose keys are checked: they take most of its time.
[[nodiscard]] Config resolve_config(const KeyTable& keys, Config config,
                                    const Environment& environment, const Provenance* where,
                                    Purpose purpose, ModelLimits* known);

// "configs/a.yaml:14: train.steps: <message>".
template <typename... Args>
[[noreturn]] void refuse(const Subject& subject, std::string_view key,
                         fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ExitCode::config, fmt::format("{}: {}", subject.where.describe(key),
                                            fmt::format(format, std::forward<Args>(args)...)));
}

void check_device(const Subject& subject);        // device, precision, comm
void check_applicable(const Subject& subject);    // keys for another model, optimizer or schedule
void check_matmuls(const Subject& subject);       // precision and epilogues against the model
void check_documents(const Subject& subject);     // against the model
void check_loss(const Subject& subject);          // train.loss and its options against the targets
void check_adapters(const Subject& subject);      // lora against the model and the trained weights
void check_parameters(const Subject& subject);    // patterns over the model's parameters
void check_spatial(const Subject& subject);       // parallel.spatial and its slabs against samples
void check_context(const Subject& subject);       // parallel.context and its blocks against samples
void check_context_sums(const Subject& subject);  // in layout mode; all of parallel is resolved
void check_layout(const Subject& subject);        // parallel.* against the rank count
void check_batch(const Subject& subject);  // global_batch, micro_batch; parallel.data is resolved
// ZeRO groups against ranks and hosts. parallel.data is resolved; returns the resolved zero_group.
[[nodiscard]] std::int64_t checked_zero_group(const Subject& subject);
void check_parallel(const Subject& subject);  // parallel.* against model and batch
void check_split(const Subject& subject);     // tensor and pipeline against the model
void check_experts(const Subject& subject);   // parallel.expert; data and zero_group are resolved
void check_data(const Subject& subject);
void check_schedule(const Subject& subject);    // steps, warm-up, optimizer
void check_evaluation(const Subject& subject);  // times of evaluations, train.stop_at, MLPerf's log

// The value of `key` as the file would have it.
[[nodiscard]] std::string value_of(const Subject& subject, std::string_view key);
// Number of ranks along all axes but data.
[[nodiscard]] std::int64_t other_ranks(const ParallelConfig& parallel);
// "parallel.data = 4", or with context "parallel.data * parallel.context = 8".
[[nodiscard]] std::string data_ranks_text(const ParallelConfig& parallel);

[[nodiscard]] constexpr bool power_of_two(std::int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}
// "1, 2 or 4".
[[nodiscard]] std::string any_of(std::span<const std::int64_t> values);
// Up to `count` divisors of `value` nearest to `wanted` and not below `minimum`, ascending.
[[nodiscard]] std::vector<std::int64_t> near_divisors(std::int64_t value, std::int64_t wanted,
                                                      std::int64_t minimum = 1,
                                                      std::size_t count = 4);

}  // namespace trireme::config

namespace trireme {

// Traced steps, counted from 1.
struct TraceSteps {
  std::int64_t first = 0, last = 0;
  friend bool operator==(const TraceSteps&, const TraceSteps&) = default;
};

// The whole trace stays in memory until its last step ends.
inline constexpr std::int64_t most_traced_steps = 100;

// `text` is "10-12" or "10"; nothing for anything else.
[[nodiscard]] std::optional<TraceSteps> parse_trace_steps(std::string_view text);
// What is wrong with `text` in a run of `steps` steps, with the fix; empty if nothing.
[[nodiscard]] std::string problem_of_trace_steps(std::string_view text, std::int64_t steps);

}  // namespace trireme
