// SPDX-License-Identifier: Apache-2.0
// A plan as text for people and as JSON for programs.
#pragma once

#include <span>
#include <string>

#include "launch/plan/layout_search.h"

namespace trireme {

struct PlanContext {
  Config given;  // as the user has it: what flags are relative to
  plan::Hardware hardware;
  bool machine = true;  // false: none is described, and memory alone is planned
  double budget = 0;    // tokens or images to train on; 0: what the config's steps process
};

[[nodiscard]] std::string describe_plan(const LayoutPlan& plan, const PlanContext& context);
// The layouts with time, memory and flags, best first, and how many were looked at.
[[nodiscard]] std::string describe_search(std::span<const LayoutPlan> best,
                                          const LayoutSearch& search, const PlanContext& context);

// Bytes, seconds, FLOPs.
[[nodiscard]] std::string plan_json(const LayoutPlan& plan, const PlanContext& context);
[[nodiscard]] std::string search_json(std::span<const LayoutPlan> best, const LayoutSearch& search,
                                      const PlanContext& context);

// "stage 0 needs 103.2 GiB of 80.0 GiB: activations overflow".
[[nodiscard]] std::string describe_overflow(const LayoutPlan& plan, const plan::Hardware& hardware);

// What training on the budget takes.
struct RunCost {
  double items = 0;
  double hours = 0;
  double rank_hours = 0;
  double price = 0;
};
[[nodiscard]] RunCost cost_of(const LayoutPlan& plan, const PlanContext& context);

}  // namespace trireme
