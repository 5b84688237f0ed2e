// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme {
namespace {

// What a step measures and a run sums.
struct Summed {
  double StepTotals::*total;
  double StepMetrics::*metric;
};
constexpr Summed summed[] = {
    {&StepTotals::loss, &StepMetrics::loss},
    {&StepTotals::step_ms, &StepMetrics::step_ms},
    {&StepTotals::data_wait_ms, &StepMetrics::data_wait_ms},
    {&StepTotals::exposed_comm_ms, &StepMetrics::exposed_comm_ms},
    {&StepTotals::straggler_ms, &StepMetrics::straggler_ms},
    {&StepTotals::bubble_ms, &StepMetrics::bubble_ms},
    {&StepTotals::other_ms, &StepMetrics::other_ms},
    {&StepTotals::core_wait_ms, &StepMetrics::core_wait_ms},
    {&StepTotals::other_core_wait_ms, &StepMetrics::other_core_wait_ms},
    {&StepTotals::core_straggler_ms, &StepMetrics::core_straggler_ms},
    {&StepTotals::reduce_ms, &StepMetrics::reduce_ms},
    {&StepTotals::reduce_wait_ms, &StepMetrics::reduce_wait_ms},
    {&StepTotals::tensor_comm_ms, &StepMetrics::tensor_comm_ms},
    {&StepTotals::gather_comm_ms, &StepMetrics::gather_comm_ms},
    {&StepTotals::reduce_comm_ms, &StepMetrics::reduce_comm_ms},
    {&StepTotals::between_ms, &StepMetrics::between_ms},
    {&StepTotals::checkpoint_ms, &StepMetrics::checkpoint_ms},
    {&StepTotals::evaluation_ms, &StepMetrics::evaluation_ms},
    {&StepTotals::checkpoint_straggler_ms, &StepMetrics::checkpoint_straggler_ms},
    {&StepTotals::forward_ms, &StepMetrics::forward_ms},
    {&StepTotals::backward_ms, &StepMetrics::backward_ms},
    {&StepTotals::optimizer_ms, &StepMetrics::optimizer_ms}};

constexpr TimePart parts_of_time[] = {
    {"compute_ms", "compute", "compute", &TimeParts::compute},
    {"exposed_comm_ms", "exposed communication", "comm", &TimeParts::exposed_comm},
    {"straggler_ms", "waits for slower ranks", "slower ranks", &TimeParts::straggler, false},
    {"core_wait_ms", "waits for cores", "cores", &TimeParts::core_wait, false},
    {"bubble_ms", "pipeline bubble", "bubble", &TimeParts::bubble, false},
    {"data_wait_ms", "data wait", "data", &TimeParts::data_wait},
    {"checkpoint_ms", "checkpoints", "checkpoints", &TimeParts::checkpoint, false},
    {"evaluation_ms", "evaluation", "evaluation", &TimeParts::evaluation},
    {"other_ms", "other", "other", &TimeParts::other}};

// What a run loses by one cause.
struct Loss {
  Trouble trouble;
  std::string what;
  double seconds;
};

std::string name_of(const SlowRank& slow, const RunSummary& summary) {
  const auto rank = static_cast<std::size_t>(slow.rank);
  return rank < summary.hosts.size() ? fmt::format("rank {} on {}", rank, summary.hosts[rank])
                                     : fmt::format("rank {}", rank);
}

// The means over the ranks count a straggler's own excess with `compute`: without it the run would
// be shorter by the whole of it.
Loss straggler(const RunSummary& summary, const RunFacts& facts) {
  const StepTotals& totals = summary.totals;
  const double waits = 1e-3 * parts_of(totals).straggler;
  const SlowRank& slow = summary.slow.compute;
  if (slow.rank < 0 && facts.uneven_batch)
    return {Trouble::uneven_batch, "waits for ranks that hold more micro-batches", waits};
  if (slow.rank < 0) return {Trouble::straggler, "waits for ranks that are slower by turns", waits};
  return {Trouble::straggler, "straggler, " + name_of(slow, summary) + ",",
          std::max(waits, slow.seconds)};
}

// " (other programs used 1.8 of the 2 cores of n1)"
std::string load_text(const RunSummary& summary) {
  constexpr double worth_telling = 0.1;
  if (!summary.load) return {};
  const HostLoad& load = *summary.load;
  std::string text;
  if (load.others >= worth_telling) text = fmt::format("other programs used {:.1f}", load.others);
  if (load.stolen >= worth_telling) {
    text +=
        fmt::format("{}other virtual machines {:.1f}", text.empty() ? "" : " and ", load.stolen);
  }
  if (text.empty()) return text;
  return fmt::format(" ({} of the {} core{} of {})", text, load.cores, load.cores == 1 ? "" : "s",
                     load.host);
}

// Ranks that want for cores hold up those that wait for their messages: of such waits it cannot be
// told what they were for. Each wait for a core holds up all other ranks at most.
Loss no_core(const RunSummary& summary, const RunFacts& facts) {
  constexpr double wanting = 0.05;  // of the steps
  const StepTotals& totals = summary.totals;
  const double own = totals.core_wait_ms + totals.core_straggler_ms;
  const double seconds = 1e-3 * own;
  const SlowRank& slow = summary.slow.core;
  const std::string load = load_text(summary);
  if (share_cores(facts) || slow.rank < 0) {
    if (own < wanting * totals.step_ms || facts.ranks < 2)
      return {Trouble::no_core, "waits for cores" + load, seconds};
    const double peers = totals.exposed_comm_ms + totals.bubble_ms + parts_of(totals).straggler;
    if (share_cores(facts)) {
      return {Trouble::no_core, "waits for cores and for ranks that had none" + load,
              seconds + 1e-3 * peers};
    }
    const double behind = std::min(peers, own * (facts.ranks - 1));
    constexpr double worth_telling = 0.02;  // of the steps
    if (behind < worth_telling * totals.step_ms)
      return {Trouble::no_core, "waits for cores" + load, seconds};
    return {Trouble::no_core, "waits for cores and, it seems, for ranks that had none" + load,
            seconds + 1e-3 * behind};
  }
  return {Trouble::no_core_of_rank,
          fmt::format("straggler, {}, which had no core for {:.1f} s,{}", name_of(slow, summary),
                      slow.own_seconds, load),
          seconds};
}

Loss data_wait(const RunSummary& summary) {
  const double seconds = 1e-3 * summary.totals.data_wait_ms;
  const SlowRank& slow = summary.slow.data;
  if (slow.rank < 0) return {Trouble::data_wait, "data wait", seconds};
  return {Trouble::data_wait_of_rank, "data wait of " + name_of(slow, summary), seconds};
}

// The longest checkpoint is everybody's.
Loss checkpoints(const RunSummary& summary) {
  const double seconds =
      1e-3 * parts_of(summary.totals).checkpoint + summary.checkpoint_after_seconds;
  const SlowRank& slow = summary.slow.checkpoint;
  if (slow.rank < 0) return {Trouble::checkpoint, "checkpoints", seconds};
  return {Trouble::checkpoint_of_rank, "checkpoints of " + name_of(slow, summary), seconds};
}

Loss messages(const RunSummary& summary) {
  const double seconds = 1e-3 * summary.totals.exposed_comm_ms;
  const SlowRank& slow = summary.slow.messages;
  if (slow.rank < 0) return {Trouble::exposed_comm, "exposed communication", seconds};
  return {Trouble::late_messages,
          fmt::format("exposed communication behind {}, whose messages seem to leave late,",
                      name_of(slow, summary)),
          std::min(seconds, slow.seconds)};
}

Loss bubble(const RunSummary& summary) {
  const double seconds = 1e-3 * summary.totals.bubble_ms;
  const SlowRank& slow = summary.slow.stage;
  if (slow.rank < 0) return {Trouble::bubble, "pipeline bubble", seconds};
  return {Trouble::uneven_stages,
          fmt::format("pipeline bubble, in which the others wait for the stage of {},",
                      name_of(slow, summary)),
          seconds};
}

// What the steps and the pauses known by name leave of the wall time, and other work in steps.
double other_seconds(const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  const double between = summary.wall_seconds - summary.evaluation_seconds -
                         summary.checkpoint_after_seconds -
                         1e-3 * (totals.step_ms + totals.checkpoint_ms);
  return std::max(0.0, between + 1e-3 * (totals.other_ms - totals.other_core_wait_ms));
}

// What exposed communication was for, where it is worth telling: " (9.1 %: gradients 7.0 %)".
std::string comm_parts(const RunSummary& summary) {
  const StepTotals& totals = summary.totals;
  const double known = totals.reduce_comm_ms + totals.tensor_comm_ms + totals.gather_comm_ms;
  const std::pair<const char*, double> parts[] = {
      {"gradients", totals.reduce_comm_ms},
      {"sums of tensor groups", totals.tensor_comm_ms},
      {"gathered parameters", totals.gather_comm_ms},
      {"norms", known > 0 ? totals.exposed_comm_ms - known : 0}};
  std::string text;
  for (const auto& [name, milliseconds] : parts) {
    const double share = percent(1e-3 * milliseconds, summary.wall_seconds);
    if (share >= 0.05) text += fmt::format("{} {} {:.1f} %", text.empty() ? ":" : ",", name, share);
  }
  return text;
}

std::string time_line(const RunSummary& summary) {
  std::string text = "time: ";
  std::string_view separator;
  for (const TimeShare& share : shares_of(summary)) {
    if (!share.always_shown && share.seconds == 0) continue;
    std::string more;
    if (share.short_name == "comm") more = comm_parts(summary);
    if (share.short_name == "bubble" && summary.bubble) {
      more = fmt::format(": of the pipeline's own time {:.1f} %, predicted {:.1f} %",
                         100 * summary.bubble->measured, 100 * summary.bubble->predicted);
    }
    text += fmt::format("{}{} {:.1f} s ({:.1f} %{})", std::exchange(separator, ", "), share.name,
                        share.seconds, percent(share.seconds, summary.wall_seconds), more);
  }
  return text;
}

// How far ranks are apart in what they do themselves.
std::string spread_line(const RunSummary& summary) {
  if (summary.ranks.size() < 2) return {};
  const std::pair<const char*, double RankTimes::*> parts[] = {
      {"own work", &RankTimes::compute},
      {"wait for their own data", &RankTimes::data_wait},
      {"wait for a core", &RankTimes::core_wait},
      {"stand still for checkpoints", &RankTimes::checkpoint}};
  std::string text;
  for (const auto& [name, member] : parts) {
    const auto [least, most] = std::ranges::minmax(summary.ranks, {}, member);
    if (1e-3 * most.*member < 0.005 * summary.wall_seconds) continue;
    text += fmt::format("{} {} {:.1f} to {:.1f} s", text.empty() ? "" : ",", name,
                        1e-3 * least.*member, 1e-3 * most.*member);
  }
  return text.empty() ? "" : "\nranks:" + text;
}

// The rank that costs most, and how it shows in the steps.
std::string late_line(const RunSummary& summary) {
  const std::pair<const SlowRank*, const char*> causes[] = {
      {&summary.slow.compute, "its own work takes longer than that of the others"},
      {&summary.slow.data, "it waits for its data"},
      {&summary.slow.core, "it has no core"},
      {&summary.slow.checkpoint, "its checkpoints take longer"},
      {&summary.slow.stage, "its stage computes longer than the others do"},
      {&summary.slow.messages, "its messages leave late, with no more work than the others have"}};
  // Late messages are what other causes leave of a difference of sums, and waits for cores are
  // known to a part only: next to a cause that is measured they count less.
  const auto weight = [&](const auto& entry) {
    const SlowRanks& slow = summary.slow;
    const bool doubtful = entry.first == &slow.messages || entry.first == &slow.core;
    return entry.first->seconds * (doubtful ? 0.5 : 1);
  };
  const auto& [slow, cause] = *std::ranges::max_element(causes, {}, weight);
  if (slow->rank < 0 || static_cast<std::size_t>(slow->rank) >= summary.ranks.size()) return {};
  const RankTimes& rank = summary.ranks[static_cast<std::size_t>(slow->rank)];
  // Stages of one rank have nobody to be late for.
  const int decimals = slow->seconds < 10 ? 3 : 1;
  if (rank.late_steps < 1) {
    return fmt::format("\n{}: {}, by {:.{}f} s in all", name_of(*slow, summary), cause,
                       slow->seconds, decimals);
  }
  return fmt::format("\n{} arrives {:.3g} ms late at {:.0f} % of steps: {}, {:.{}f} s in all",
                     name_of(*slow, summary), rank.late / rank.late_steps,
                     percent(rank.late_steps,
                             static_cast<double>(std::max<std::int64_t>(summary.totals.steps, 1))),
                     cause, slow->seconds, decimals);
}

}  // namespace

void StepTotals::add(const StepMetrics& metrics) {
  ++steps;
  items += metrics.items;
  for (const auto& [total, metric] : summed)
    this->*total += metrics.*metric;
  if (!metrics.joules) return;
  joules += *metrics.joules;
  joule_items += metrics.items;
}

void StepTotals::add(const StepTotals& more) {
  steps += more.steps;
  items += more.items;
  for (const auto& [total, metric] : summed)
    this->*total += more.*total;
  joules += more.joules;
  joule_items += more.joule_items;
}

void Divergence::add(std::int64_t step, double loss) {
  if (std::isfinite(loss))
    since = 0;
  else if (since == 0)
    since = step;
}

std::span<const TimePart> time_parts() {
  return parts_of_time;
}

RankMesh mesh_of(const RunFacts& facts) {
  return {.data = facts.data, .tensor = facts.tensor, .pipeline = facts.pipeline};
}

TimeParts parts_of(const StepTotals& totals) {
  TimeParts parts{
      .exposed_comm = totals.exposed_comm_ms,
      .straggler = totals.straggler_ms - totals.core_straggler_ms - totals.checkpoint_straggler_ms,
      .core_wait = totals.core_wait_ms + totals.core_straggler_ms,
      .bubble = totals.bubble_ms,
      .data_wait = totals.data_wait_ms,
      .checkpoint = totals.checkpoint_ms + totals.checkpoint_straggler_ms,
      .evaluation = totals.evaluation_ms,
      .other = totals.other_ms - totals.other_core_wait_ms + totals.between_ms -
               totals.checkpoint_ms - totals.evaluation_ms};
  // Both are measured by other clocks than what they are parts of.
  parts.other = std::max(parts.other, 0.0);
  parts.compute = std::max(totals.step_ms - totals.data_wait_ms - totals.exposed_comm_ms -
                               totals.straggler_ms - totals.bubble_ms - totals.other_ms -
                               (totals.core_wait_ms - totals.other_core_wait_ms),
                           0.0);
  return parts;
}

StepTotals totals_of(const TimeParts& parts, std::int64_t steps) {
  StepTotals totals{.steps = steps,
                    .data_wait_ms = parts.data_wait,
                    .exposed_comm_ms = parts.exposed_comm,
                    .straggler_ms = parts.straggler,
                    .bubble_ms = parts.bubble,
                    .other_ms = parts.other,
                    .core_wait_ms = parts.core_wait,
                    .between_ms = parts.checkpoint + parts.evaluation,
                    .checkpoint_ms = parts.checkpoint,
                    .evaluation_ms = parts.evaluation};
  totals.step_ms = parts.compute + parts.exposed_comm + parts.straggler + parts.core_wait +
                   parts.bubble + parts.data_wait + parts.other;
  return totals;
}

std::vector<TimeShare> shares_of(const RunSummary& summary) {
  constexpr double per_second = 1e3;
  TimeParts parts = parts_of(summary.totals);
  // What comes behind the last step is in no step's times.
  parts.checkpoint += per_second * summary.checkpoint_after_seconds;
  parts.evaluation = per_second * summary.evaluation_seconds;
  parts.other = per_second * other_seconds(summary);
  std::vector<TimeShare> shares;
  for (const TimePart& part : time_parts())
    shares.push_back(
        {part.name, part.short_name, parts.*part.member / per_second, part.always_shown});
  return shares;
}

std::string verdict_text(const RunSummary& summary, const RunFacts& facts) {
  std::string text = time_line(summary);
  if (const double reduced = summary.totals.reduce_ms; reduced > 0) {
    const double exposed = std::min(percent(summary.totals.reduce_wait_ms, reduced), 100.0);
    text += fmt::format("\ngradient reduction: {:.1f} s, {:.1f} % hidden, {:.1f} % exposed",
                        1e-3 * reduced, 100 - exposed, exposed);
  }
  text += spread_line(summary) + late_line(summary);
  text += "\n" + verdict(summary, facts);
  if (summary.divergence.since > 0) return text;
  const std::string trials = try_line(summary, facts);
  return trials.empty() ? text : text + "\n" + trials;
}

std::string verdict(const RunSummary& summary, const RunFacts& given) {
  constexpr double worth_naming = 5;  // percent
  if (summary.divergence.since > 0) {
    return fmt::format(
        "verdict: the loss is not finite from step {} on, so its speed is worth "
        "nothing; {}",
        summary.divergence.since, advice_for(Trouble::non_finite, given));
  }
  RunFacts facts = given;
  if (summary.load) facts.other_programs = summary.load->others + summary.load->stolen;
  const Loss losses[] = {
      messages(summary),
      straggler(summary, facts),
      no_core(summary, facts),
      bubble(summary),
      data_wait(summary),
      checkpoints(summary),
      {Trouble::evaluation, "evaluation", summary.evaluation_seconds},
      {Trouble::other, "other work", other_seconds(summary)},
  };
  const Loss& worst = *std::ranges::max_element(losses, {}, &Loss::seconds);
  const double part = percent(worst.seconds, summary.wall_seconds);
  if (part < worth_naming) {
    return fmt::format("verdict: bound by computation; no other part takes more than {:.1f} %",
                       std::ceil(part * 10) / 10);
  }
  const double rest = std::max(summary.wall_seconds - worst.seconds, 1e-9);
  const bool small_cache =
      worst.trouble == Trouble::data_wait && summary.decoded_again >= notable_decoded_again;
  const std::string advice = advice_for(small_cache ? Trouble::small_cache : worst.trouble, facts);
  return fmt::format(
      "verdict: without its {} ({:.1f} %) this run would be {:.2f} times as fast{}{}", worst.what,
      part, summary.wall_seconds / rest, advice.empty() ? "" : "; ", advice);
}

}  // namespace trireme
