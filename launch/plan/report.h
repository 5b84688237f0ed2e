// SPDX-License-Identifier: Apache-2.0
// A plan as text for people and as JSON for programs.
#pragma once

#include <span>
#include <string>

#include "launch/plan/layout_search.h"

namespace trireme {

struct PlanContext {
  Config given;  // as the user wrote it: flags are relative to it
  plan::Hardware hardware;
  bool machine = true;  // false: none is described, and only memory is planned
  double budget = 0;    // tokens or images to train on; 0: those of the config's steps
};

[[nodiscard]] std::string describe_plan(const LayoutPlan& plan, const PlanContext& context);
// The layouts with time, memory and flags, best first, and the number of examined ones.
[[nodiscard]] std::string describe_search(std::span<const LayoutPlan> best,
                                          const LayoutSearch& search, const PlanContext& context);

// Bytes, seconds, FLOPs.
[[nodiscard]] std::string plan_json(const LayoutPlan& plan, const PlanContext& context);
[[nodiscard]] std::string search_json(std::span<const LayoutPlan> best, const LayoutSearch& search,
                                      const PlanContext& context);

// Rows that a rank with experts receives, per layer and micro-batch, and the memory for one.
struct ExpertRows {
  std::int64_t layers = 0;
  int ranks = 1;
  double imbalance = 1;  // parallel.expert_imbalance
  std::int64_t assumed = 0;
  int rounds = 1;  // of the assumed rows
  ExpertMessages held{};
  [[nodiscard]] std::string assumption() const;  // of a plan's times
};
// Of a resolved config; nothing without experts.
[[nodiscard]] std::optional<ExpertRows> expert_rows(const Config& config);
[[nodiscard]] std::string describe(const ExpertRows& rows);

// "stage 0 needs 103.2 GiB of 80.0 GiB: activations overflow".
[[nodiscard]] std::string describe_overflow(const LayoutPlan& plan, const plan::Hardware& hardware);

// The cost of training on the budget.
struct RunCost {
  double items = 0;
  double hours = 0;
  double rank_hours = 0;
  double price = 0;
};
[[nodiscard]] RunCost cost_of(const LayoutPlan& plan, const PlanContext& context);

}  // namespace trireme
