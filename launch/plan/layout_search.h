// SPDX-License-Identifier: Apache-2.0
// Every layout that a config can take on a number of ranks, by predicted step time.
//
// Varies parallel.data, tensor, expert, or of samples that can be cut spatial, of long sequences
// context (powers of two within a domain of fast links or with 8,192 tokens on each rank, and as
// given), pipeline, schedule, chunks, zero, zero_group (all, or if a data group spans domains the
// data ranks of one), sequence, train.recompute and train.micro_batch. Results stay: the global
// batch, the reproducibility mode, and the micro-batch if results depend on it by more than
// rounding (batch normalization) or at all (reproducibility: layout). The rules of resolve_config
// decide the valid layouts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launch/plan/layout_plan.h"

namespace trireme {

struct LayoutChoice {
  std::int64_t data = 1, tensor = 1, pipeline = 1, chunks = 1, zero = 0, micro_batch = 1;
  std::int64_t zero_group = 0;  // 0: all
  std::int64_t expert = 0;      // 0: as tensor
  std::int64_t context = 1;
  bool sequence = false;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Recompute recompute = Recompute::none;
  std::vector<std::int64_t> spatial{1, 1, 1};
  friend bool operator==(const LayoutChoice&, const LayoutChoice&) = default;
};

[[nodiscard]] LayoutChoice choice_of(const Config& config);
// `config` with that layout, whatever it had; stages are balanced.
[[nodiscard]] Config with_layout(Config config, const LayoutChoice& choice);
// Whether other micro-batches give other results: batch normalization takes its statistics from
// them, and in layout mode they are the leaves of the tree of sums.
[[nodiscard]] bool micro_batch_decides_results(const Config& config);
// How many keys differ.
[[nodiscard]] int distance(const LayoutChoice& a, const LayoutChoice& b);
// "key=value" for each value of `changed` that differs from `given`.
[[nodiscard]] std::vector<std::string> changed_settings(const Config& given, const Config& changed);
// "--set parallel.data=4 --set ...": what makes of `given` a config of that layout.
[[nodiscard]] std::string as_flags(const Config& given, const LayoutChoice& choice);

class LayoutSearch {
 public:
  // Estimates the time of every layout whose parameters and activations alone do not exceed the
  // memory. `given` need not be resolved. Raises ExitCode::config if the rules refuse all layouts,
  // or the hardware does not support the precision.
  LayoutSearch(const Config& given, int ranks, const plan::Hardware& hardware);
  // For a job that is there already.
  LayoutSearch(const Config& given, const Environment& environment, const plan::Hardware& hardware);

  // The `count` fastest that fit. Equal times: the less memory, then the simpler layout first.
  [[nodiscard]] std::vector<LayoutPlan> fastest(std::size_t count);
  // The one that fits and differs from `from` in the fewest keys, the fastest of these; nothing
  // where none fits.
  [[nodiscard]] std::optional<LayoutPlan> nearest(const LayoutChoice& from);

  [[nodiscard]] std::size_t tried() const { return tried_; }
  [[nodiscard]] std::size_t refused() const { return refused_; }  // by the config's rules
  // At least: all buffers are counted of the fastest (or nearest) layouts alone.
  [[nodiscard]] std::size_t too_large() const { return too_large_; }

 private:
  struct Candidate {
    LayoutChoice choice;
    plan::StepEstimate step;
    std::uint64_t min_bytes = 0;  // that any rank of it needs
  };
  // Nothing where it is too large, or where the rules refuse it, with their message.
  [[nodiscard]] std::optional<Candidate> considered(const LayoutChoice& choice,
                                                    std::string& refusal);
  [[nodiscard]] std::optional<LayoutPlan> fitting(const Candidate& candidate);

  Config given_;
  plan::Hardware hardware_;
  Environment environment_;
  StepPlanner planner_;
  plan::StepMemo memo_;
  std::optional<ModelLimits> limits_;
  std::vector<Candidate> candidates_;
  std::size_t tried_ = 0, refused_ = 0, too_large_ = 0;
};

}  // namespace trireme
