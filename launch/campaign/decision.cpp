// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::campaign {
namespace {

using Outcome = CampaignState::Outcome;
using Action = Decision::Action;

constexpr double assumed_restart_seconds = 60;
constexpr double most_backoff = 16;  // times the first backoff
// A shorter job would only start up.
constexpr double least_job_seconds = 60;

// Ratio of measured and predicted step time, from the newest attempt with both.
double correction(const CampaignState& state) {
  for (auto attempt = state.attempts.rbegin(); attempt != state.attempts.rend(); ++attempt) {
    if (attempt->step_seconds > 0 && attempt->predicted_step > 0)
      return attempt->step_seconds / attempt->predicted_step;
  }
  return 1;
}

struct Candidate {
  std::size_t option = 0;
  Offer offer;
  std::optional<double> step;  // seconds
  double finish = 0;           // seconds from now
  double node_hours = 0;       // for the remaining steps
};

std::vector<Candidate> candidates_of(const CampaignState& state,
                                     std::span<const LayoutOption> options,
                                     std::span<const Offer> offers, std::int64_t steps_left) {
  std::vector<Candidate> all;
  const double restart = restart_seconds(state);
  for (const Offer& offer : offers) {
    for (std::size_t i = 0; i < options.size(); ++i) {
      if (options[i].nodes > offer.nodes) continue;
      Candidate candidate{.option = i, .offer = offer, .step = expected_step(options[i], state)};
      const double work = static_cast<double>(steps_left) * candidate.step.value_or(0);
      candidate.finish = offer.wait_seconds + restart + work;
      candidate.node_hours = (restart + work) * static_cast<double>(options[i].nodes) / 3600;
      all.push_back(std::move(candidate));
    }
  }
  return all;
}

// The candidate that finishes first; fewer nodes on ties. Without times: the one that starts first,
// on the most nodes.
const Candidate* first_done(std::span<const Candidate> all, std::span<const LayoutOption> options) {
  const bool known =
      std::ranges::all_of(all, [](const Candidate& each) { return each.step.has_value(); });
  const auto better = [&](const Candidate& a, const Candidate& b) {
    const auto nodes = [&](const Candidate& each) { return options[each.option].nodes; };
    if (known) return a.finish != b.finish ? a.finish < b.finish : nodes(a) < nodes(b);
    if (a.offer.wait_seconds != b.offer.wait_seconds)
      return a.offer.wait_seconds < b.offer.wait_seconds;
    return nodes(a) > nodes(b);
  };
  const auto best = std::ranges::min_element(all, better);
  return best == all.end() ? nullptr : &*best;
}

Decision ended(Outcome outcome, std::string reason) {
  return {.action = Action::end, .outcome = outcome, .reason = std::move(reason)};
}

// Seconds to pause after consecutive failures.
double backoff(const CampaignState& state, const Rules& rules) {
  const auto failures = state.without_progress();
  if (failures == 0) return 0;
  return rules.backoff_seconds *
         std::min(most_backoff,
                  std::exp2(static_cast<double>(std::min<std::int64_t>(failures, 8) - 1)));
}

// Limits that end a campaign with or without a job.
std::optional<Decision> at_limit(const CampaignState& state, const Rules& rules, double now) {
  if (rules.end && now >= *rules.end)
    return ended(Outcome::past_end, "budget.end is reached; set a later one to continue");
  const double used = state.node_hours(now);
  if (rules.node_hours > 0 && used >= rules.node_hours) {
    return ended(Outcome::out_of_budget,
                 fmt::format("{:.2f} of {:g} node-hours are used; with more (budget.node_hours) "
                             "the campaign continues from the checkpoint",
                             used, rules.node_hours));
  }
  return {};
}

}  // namespace

Rules rules_of(const CampaignFile& file) {
  return {.node_hours = file.node_hours,
          .end = file.end,
          .no_progress = file.no_progress,
          .backoff_seconds = file.backoff_seconds,
          .gain = file.gain,
          .better_after_seconds = 60 * file.better_after_minutes};
}

std::optional<double> expected_step(const LayoutOption& option, const CampaignState& state) {
  const Attempt* newest = nullptr;
  for (auto attempt = state.attempts.rbegin(); attempt != state.attempts.rend(); ++attempt) {
    if (attempt->step_seconds <= 0) continue;
    if (attempt->nodes == option.nodes && attempt->layout == option.text)
      return attempt->step_seconds;
    if (newest == nullptr) newest = &*attempt;
  }
  if (option.step_seconds > 0) return option.step_seconds * correction(state);
  if (newest == nullptr) return {};
  return newest->step_seconds * static_cast<double>(newest->nodes) /
         static_cast<double>(option.nodes);
}

double restart_seconds(const CampaignState& state) {
  std::vector<double> starts;
  for (const Attempt& attempt : state.attempts) {
    if (attempt.first_step > 0 && attempt.started > 0)
      starts.push_back(std::max(0.0, attempt.first_step - attempt.started));
  }
  if (starts.empty()) return assumed_restart_seconds;
  const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
  std::ranges::nth_element(starts, middle);
  return *middle;
}

std::optional<double> seconds_allowed(const CampaignState& state, const Rules& rules,
                                      std::int64_t nodes, double now) {
  std::optional<double> allowed;
  if (rules.end) allowed = *rules.end - now;
  if (rules.node_hours > 0) {
    const double paid =
        3600 * (rules.node_hours - state.node_hours(now)) / static_cast<double>(nodes);
    allowed = std::min(paid, allowed.value_or(paid));
  }
  return allowed;
}

Decision decide_next(const CampaignState& state, std::span<const LayoutOption> options,
                     std::span<const Offer> offers, const Rules& rules, std::int64_t step,
                     double now) {
  if (const auto limit = at_limit(state, rules, now)) return *limit;
  if (const auto lost = state.without_progress(); lost >= rules.no_progress) {
    return ended(Outcome::given_up,
                 fmt::format("{} jobs in a row left no newer checkpoint; the last one: {}", lost,
                             state.attempts.back().reason));
  }
  if (!state.attempts.empty()) {
    const double until = state.attempts.back().ended + backoff(state, rules);
    if (until > now)
      return {.until = until,
              .reason = fmt::format("pauses after a failure: {}", state.attempts.back().reason)};
  }
  const std::int64_t steps_left = std::max<std::int64_t>(1, state.steps - step);
  auto all = candidates_of(state, options, offers, steps_left);
  std::erase_if(all, [&](const Candidate& each) {
    const auto allowed = seconds_allowed(state, rules, options[each.option].nodes, now);
    return allowed && *allowed - each.offer.wait_seconds < least_job_seconds &&
           *allowed < each.finish;
  });
  if (all.empty()) {
    if (!offers.empty() && (rules.end || rules.node_hours > 0)) {
      return ended(rules.node_hours > 0 ? Outcome::out_of_budget : Outcome::past_end,
                   "the rest of the budget is less than a minute of any job");
    }
    return {.reason = "no offer of enough nodes"};
  }
  std::vector<Candidate> paid;
  for (const Candidate& each : all) {
    const double left = rules.node_hours - state.node_hours(now);
    if (rules.node_hours == 0 || !each.step || each.node_hours <= left) paid.push_back(each);
  }
  const Candidate* best = paid.empty() ? &*std::ranges::min_element(all, {}, &Candidate::node_hours)
                                       : first_done(paid, options);
  std::string reason = best->offer.wait_seconds > 0
                           ? fmt::format("expected to start in {:.0f} s", best->offer.wait_seconds)
                           : "could start now";
  if (paid.empty()) reason += "; the budget is too small for all remaining steps";
  return {.action = Action::submit,
          .option = best->option,
          .place = best->offer.place,
          .reason = std::move(reason)};
}

Decision decide_running(const CampaignState& state, std::span<const LayoutOption> options,
                        std::span<const Offer> offers, const Rules& rules, std::int64_t step,
                        double now) {
  const Attempt& job = state.attempts.back();
  const Decision keep{.action = Action::keep};
  if (auto limit = at_limit(state, rules, now)) {
    return {.action = Action::stop, .outcome = limit->outcome, .reason = limit->reason};
  }
  if (rules.gain == 0 || job.asked_to_stop > 0) return keep;
  const std::int64_t steps_left = std::max<std::int64_t>(1, state.steps - step);
  const auto all = candidates_of(state, options, offers, steps_left);
  if (all.empty()) return keep;
  // A waiting job gives way to any that could start.
  if (job.phase != Attempt::Phase::running) {
    const Candidate* const best = first_done(all, options);
    return {.action = Action::stop,
            .reason = fmt::format("it waits, but {} nodes{}{} could start now",
                                  options[best->option].nodes,
                                  best->offer.place.empty() ? "" : " of ", best->offer.place)};
  }
  if (job.step_seconds <= 0 || now - job.started < rules.better_after_seconds) return keep;
  const double rest = static_cast<double>(steps_left) * job.step_seconds;
  const Candidate* const best = first_done(all, options);
  if (!best->step || best->finish * rules.gain > rest) return keep;
  return {.action = Action::stop,
          .reason = fmt::format(
              "{} nodes as {} would need {:.0f} s for the remaining steps instead of {:.0f}",
              options[best->option].nodes, options[best->option].text, best->finish, rest)};
}

}  // namespace trireme::campaign
