// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

// A cause and its lost time.
struct Loss {
  Bottleneck kind;
  std::string what;
  double seconds;
  std::string cause{};
};

std::string name_of(const SlowRank& slow, const RunSummary& summary) {
  const auto rank = static_cast<std::size_t>(slow.rank);
  return rank < summary.hosts.size() ? fmt::format("rank {} on {}", rank, summary.hosts[rank])
                                     : fmt::format("rank {}", rank);
}

// The means over the ranks count a straggler's excess as `compute`: without it the run would be
// shorter by the full excess.
Loss straggler(const RunSummary& summary, const RunFacts& facts, double waits) {
  const SlowRank& slow = summary.slow.compute;
  if (slow.rank < 0 && facts.uneven_batch)
    return {Bottleneck::uneven_batch, "waits for ranks that hold more micro-batches", waits};
  if (slow.rank < 0) return {Bottleneck::straggler, "waits for ranks that are slow in turn", waits};
  return {Bottleneck::straggler, "straggler " + name_of(slow, summary),
          std::max(waits, slow.seconds)};
}

// "other processes used 1.8 of the 2 cores of n1"
std::string load_text(const RunSummary& summary) {
  constexpr double worth_telling = 0.1;
  if (!summary.load) return {};
  const HostLoad& load = *summary.load;
  std::string text;
  if (load.others >= worth_telling) text = fmt::format("other processes used {:.1f}", load.others);
  if (load.stolen >= worth_telling) {
    text +=
        fmt::format("{}other virtual machines {:.1f}", text.empty() ? "" : " and ", load.stolen);
  }
  if (text.empty()) return text;
  return fmt::format("{} of the {} core{} of {}", text, load.cores, load.cores == 1 ? "" : "s",
                     load.host);
}

// Ranks that lack cores delay those that wait for their messages; the purpose of such waits is
// unknown. Each wait for a core delays all other ranks at most by its length.
Loss no_core(const RunSummary& summary, const RunFacts& facts, const Times& seconds) {
  constexpr double wanting = 0.05, worth_telling = 0.02;  // shares of the steps
  const double own = seconds[TimePart::core_wait];
  const double steps = 1e-3 * summary.totals[TimePart::step];
  const SlowRank& slow = summary.slow.core;
  const std::string load = load_text(summary);
  if (!share_cores(facts) && slow.rank >= 0)
    return {Bottleneck::no_core_of_rank,
            fmt::format("CPU contention of {}", name_of(slow, summary)), own, load};
  const Loss alone{Bottleneck::no_core, "CPU contention", own, load};
  if (own < wanting * steps || facts.ranks < 2) return alone;
  const double peers =
      seconds[TimePart::exposed_comm] + seconds[TimePart::bubble] + seconds[TimePart::straggler];
  if (share_cores(facts))
    return {Bottleneck::no_core, "CPU contention and waits for ranks that had it", own + peers,
            load};
  const double behind = std::min(peers, own * (facts.ranks - 1));
  if (behind < worth_telling * steps) return alone;
  return {Bottleneck::no_core, "CPU contention and, it seems, waits for ranks that had it",
          own + behind, load};
}

// A part of the time, its cause, and the rank whose name is placed between two texts.
struct Cause {
  TimePart part;
  Bottleneck of_all;
  SlowRank SlowRanks::*slow = nullptr;
  Bottleneck of_rank{};
  const char *before = " of ", *behind = "";
};
constexpr Cause causes[] = {
    {TimePart::exposed_comm, Bottleneck::exposed_comm, &SlowRanks::messages,
     Bottleneck::late_messages, " behind ", ", whose messages seem to leave late"},
    {TimePart::bubble, Bottleneck::bubble, &SlowRanks::stage, Bottleneck::uneven_stages,
     ", in which the others wait for the stage of "},
    {TimePart::data_wait, Bottleneck::data_wait, &SlowRanks::data, Bottleneck::data_wait_of_rank},
    // The longest checkpoint delays all ranks.
    {TimePart::checkpoint, Bottleneck::checkpoint, &SlowRanks::checkpoint,
     Bottleneck::checkpoint_of_rank},
    {TimePart::evaluation, Bottleneck::evaluation},
    {TimePart::stopped, Bottleneck::stopped}};

Loss loss_of(const TimeRow& row, const RunSummary& summary, double seconds) {
  const auto* const cause = std::ranges::find(causes, row.part, &Cause::part);
  Loss loss{Bottleneck::other, std::string(row.name), seconds};
  if (row.part == TimePart::other) loss.what += " work";
  if (cause == std::end(causes)) return loss;
  loss.kind = cause->of_all;
  if (cause->slow == nullptr || (summary.slow.*cause->slow).rank < 0) return loss;
  const SlowRank& slow = summary.slow.*cause->slow;
  loss.kind = cause->of_rank;
  loss.what += cause->before + name_of(slow, summary) + cause->behind;
  if (row.part == TimePart::exposed_comm) loss.seconds = std::min(seconds, slow.seconds);
  return loss;
}

// Waits for ranks whose experts had more rows, which other parts contain.
double unbalanced_seconds(const RunSummary& summary, const Times& seconds) {
  return std::min(1e-3 * summary.totals[TimePart::expert_wait],
                  seconds[TimePart::straggler] + seconds[TimePart::exposed_comm]);
}

std::vector<Loss> losses_of(const RunSummary& summary, const RunFacts& facts) {
  Times seconds = seconds_of(summary);
  std::vector<Loss> losses;
  const double unbalanced = unbalanced_seconds(summary, seconds);
  losses.push_back({Bottleneck::unbalanced_experts, "unbalanced experts", unbalanced});
  const double of_stragglers = std::min(unbalanced, seconds[TimePart::straggler]);
  // Then the load, not the rank, is what is slow.
  const bool explained = unbalanced > 0 && 2 * of_stragglers >= seconds[TimePart::straggler];
  seconds[TimePart::straggler] -= of_stragglers;
  seconds[TimePart::exposed_comm] -= unbalanced - of_stragglers;
  for (const TimeRow& row : told_times(time_use::of_run)) {
    if (row.part == TimePart::straggler && explained)
      continue;
    else if (row.part == TimePart::straggler)
      losses.push_back(straggler(summary, facts, seconds[row.part]));
    else if (row.part == TimePart::core_wait)
      losses.push_back(no_core(summary, facts, seconds));
    else if (row.part != TimePart::compute)
      losses.push_back(loss_of(row, summary, seconds[row.part]));
  }
  return losses;
}

// What TimePart::tensor_comm waits for in this run.
std::string_view name_of_tensor_messages(const TimeRow& row, const RunFacts& facts) {
  if (facts.cuts_samples) return "halos and sums of shared samples";
  if (facts.context == 1) return row.name;
  return facts.tensor == 1 ? "attention over shared sequences"
                           : "messages of tensor groups, attention over shared sequences";
}

// The purposes of exposed communication, if large enough, and how much of the reduction was hidden:
// "gradients 7.0 %; 80.0 % of gradient reduction hidden".
std::string comm_parts(const RunSummary& summary, const RunFacts& facts) {
  std::string text;
  double rest = summary.totals[TimePart::exposed_comm];
  const auto add = [&](std::string_view name, double milliseconds) {
    rest -= milliseconds;
    const double share = percent(1e-3 * milliseconds, summary.wall_seconds);
    if (share >= 0.05) text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", name, share);
  };
  for (const TimeRow& row : told_times(time_use::of_comm))
    add(row.part == TimePart::tensor_comm ? name_of_tensor_messages(row, facts) : row.name,
        summary.totals[row.part]);
  if (rest < summary.totals[TimePart::exposed_comm]) add("norms", rest);
  if (const double reduced = summary.totals[TimePart::reduce]; reduced > 0) {
    const double exposed = std::min(percent(summary.totals[TimePart::reduce_wait], reduced), 100.0);
    text += fmt::format("{}{:.1f} % of gradient reduction hidden", text.empty() ? "" : "; ",
                        100 - exposed);
  }
  return text;
}

std::string time_line(const RunSummary& summary, const RunFacts& facts) {
  std::string text =
      fmt::format("time {:.{}f} s", summary.wall_seconds, summary.wall_seconds < 10 ? 1 : 0);
  std::string_view separator = ": ";
  const Times seconds = seconds_of(summary);
  for (const TimeRow& row : told_times(time_use::of_run)) {
    const double share = percent(seconds[row.part], summary.wall_seconds);
    std::string more;
    if (row.part == TimePart::exposed_comm) more = comm_parts(summary, facts);
    if (row.part == TimePart::bubble && summary.bubble) {
      more = fmt::format("of the pipeline's own time {:.1f} %, predicted {:.1f} %",
                         100 * summary.bubble->measured, 100 * summary.bubble->predicted);
    }
    if (share < 0.05 && more.empty() && row.part != TimePart::compute) continue;
    text += fmt::format("{}{} {:.1f} %{}", std::exchange(separator, ", "), row.name, share,
                        more.empty() ? "" : fmt::format(" ({})", more));
  }
  return text;
}

std::string expert_text(const RunSummary& summary) {
  constexpr double worth_telling = 0.5, doubtful = 5;  // percent
  const Times seconds = seconds_of(summary);
  const double unbalanced = unbalanced_seconds(summary, seconds);
  const double share = percent(unbalanced, summary.wall_seconds);
  if (share < worth_telling) return {};
  return fmt::format(
      "experts unbalanced: about {:.1f} s ({:.1f} %) of these waits are for ranks whose experts "
      "had more rows, by the counts of rows and the time of the matmuls{}",
      unbalanced, share,
      percent(seconds[TimePart::core_wait], summary.wall_seconds) > doubtful
          ? "; not certain, because of CPU contention"
          : "");
}

// The spread of the ranks' own work.
std::string spread_text(const RunSummary& summary) {
  if (summary.ranks.size() < 2) return {};
  constexpr std::pair<const char*, TimePart> parts[] = {
      {"own work", TimePart::compute},
      {"wait for their own data", TimePart::data_wait},
      {"wait for a core", TimePart::core_wait},
      {"stop for checkpoints", TimePart::checkpoint}};
  std::string text;
  for (const auto& [name, part] : parts) {
    const auto of = [part = part](const Times& rank) { return rank[part]; };
    const auto [least, most] = std::ranges::minmax(summary.ranks | std::views::transform(of));
    if (1e-3 * most < 0.005 * summary.wall_seconds) continue;
    text += fmt::format("{} {} {:.1f} to {:.1f} s", text.empty() ? "" : ",", name, 1e-3 * least,
                        1e-3 * most);
  }
  return text.empty() ? "" : "ranks:" + text;
}

// The rank that costs most, and its effect on steps.
std::string late_text(const RunSummary& summary) {
  const std::pair<const SlowRank*, const char*> causes[] = {
      {&summary.slow.compute, "its own work takes longer than that of the others"},
      {&summary.slow.data, "it waits for its data"},
      {&summary.slow.core, "it has no core"},
      {&summary.slow.checkpoint, "its checkpoints take longer"},
      {&summary.slow.stage, "its stage computes longer than the others do"},
      {&summary.slow.messages, "its messages leave late, with no more work than the others have"}};
  // Late messages are a remainder of sums, and core waits are known only in part: next to a
  // measured cause they count less.
  const auto weight = [&](const auto& entry) {
    const SlowRanks& slow = summary.slow;
    const bool doubtful = entry.first == &slow.messages || entry.first == &slow.core;
    return entry.first->seconds * (doubtful ? 0.5 : 1);
  };
  const auto& [slow, cause] = *std::ranges::max_element(causes, {}, weight);
  if (slow->rank < 0 || static_cast<std::size_t>(slow->rank) >= summary.ranks.size()) return {};
  const Times& rank = summary.ranks[static_cast<std::size_t>(slow->rank)];
  const double late_steps = rank[TimePart::late_steps];
  // In stages of one rank nobody is late.
  const int decimals = slow->seconds < 10 ? 3 : 1;
  if (late_steps < 1) {
    return fmt::format("{}: {}, by {:.{}f} s in all", name_of(*slow, summary), cause, slow->seconds,
                       decimals);
  }
  return fmt::format(
      "{} arrives {:.3g} ms late at {:.0f} % of steps: {}, {:.{}f} s in all",
      name_of(*slow, summary), rank[TimePart::late] / late_steps,
      percent(late_steps, static_cast<double>(std::max<std::int64_t>(summary.totals.steps, 1))),
      cause, slow->seconds, decimals);
}

}  // namespace

void StepTotals::add(const StepMetrics& metrics) {
  add({.steps = 1,
       .items = metrics.items,
       .loss = metrics.loss,
       .times = metrics.times,
       .joules = metrics.joules.value_or(0),
       .joule_items = metrics.joules ? metrics.items : 0});
}

void StepTotals::add(const StepTotals& more) {
  steps += more.steps;
  items += more.items;
  loss += more.loss;
  times += more.times;
  joules += more.joules;
  joule_items += more.joule_items;
}

void Divergence::add(std::int64_t step, double loss) {
  if (std::isfinite(loss))
    since = 0;
  else if (since == 0)
    since = step;
}

RankMesh mesh_of(const RunFacts& facts) {
  return {.data = facts.data, .tensor = facts.tensor, .pipeline = facts.pipeline};
}

Times parts_of(const Times& times) {
  using enum TimePart;
  Times parts = times;
  parts[straggler] -= times[core_straggler] + times[checkpoint_straggler];
  parts[checkpoint] += times[checkpoint_straggler];
  // Parts and whole use different clocks, so a difference may be negative.
  parts[other] = std::max(times[other] - times[other_core_wait] + times[between_steps] -
                              times[checkpoint] - times[evaluation],
                          0.0);
  parts[compute] = std::max(times[step] - times[data_wait] - times[exposed_comm] -
                                times[straggler] - times[bubble] - times[other] -
                                (times[core_wait] - times[core_straggler] - times[other_core_wait]),
                            0.0);
  return parts;
}

Times seconds_of(const RunSummary& summary) {
  using enum TimePart;
  const Times totals = summary.totals.times * 1e-3;
  Times seconds = parts_of(totals);
  // Time after the last step is in no step.
  seconds[checkpoint] += summary.checkpoint_after_seconds;
  seconds[evaluation] = summary.evaluation_seconds;
  // The rest of the wall time, and other work in steps.
  seconds[other] =
      std::max(0.0, summary.wall_seconds - summary.evaluation_seconds -
                        summary.checkpoint_after_seconds - totals[step] - totals[checkpoint] -
                        totals[stopped] + totals[other] - totals[other_core_wait]);
  return seconds;
}

std::string end_of_run_text(const RunSummary& summary, const RunFacts& facts) {
  std::string text = time_line(summary, facts), ranks;
  for (const std::string& part : {spread_text(summary), late_text(summary), expert_text(summary)})
    if (!part.empty()) ranks += (ranks.empty() ? "\n" : "; ") + part;
  text += ranks + "\n" + bottleneck_text(summary, facts);
  if (summary.divergence.since > 0) return text;
  const std::string trials = try_line(summary, facts);
  return trials.empty() ? text : text + "\n" + trials;
}

std::string bottleneck_text(const RunSummary& summary, const RunFacts& given) {
  constexpr double worth_naming = 5;  // percent
  if (summary.divergence.since > 0) {
    return fmt::format("bottleneck: none to name: the loss is not finite from step {} on; {}",
                       summary.divergence.since, advice_for(Bottleneck::non_finite, given));
  }
  RunFacts facts = given;
  if (summary.load) facts.other_programs = summary.load->others + summary.load->stolen;
  const std::vector<Loss> losses = losses_of(summary, facts);
  const Loss& worst = *std::ranges::max_element(losses, {}, &Loss::seconds);
  const double part = percent(worst.seconds, summary.wall_seconds);
  if (part < worth_naming) {
    return fmt::format("bottleneck: computation; no other part takes more than {:.1f} %",
                       std::ceil(part * 10) / 10);
  }
  const bool small_cache =
      worst.kind == Bottleneck::data_wait && summary.decoded_again >= notable_decoded_again;
  const std::string advice = advice_for(small_cache ? Bottleneck::small_cache : worst.kind, facts);
  std::string text = fmt::format("bottleneck: {} ({:.1f} %)", worst.what, part);
  std::string_view separator = ": ";
  for (const std::string& more : {worst.cause, advice})
    if (!more.empty()) text += fmt::format("{}{}", std::exchange(separator, "; "), more);
  return text;
}

}  // namespace trireme
