// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/campaign.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "launch/campaign/cluster/job_control.h"
#include "launch/campaign/cluster/job_end.h"
#include "launch/campaign/cluster/slurm_text.h"
#include "launch/campaign/run_progress.h"
#include "launch/run/file_tail.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::campaign {
namespace {

namespace fs = std::filesystem;

constexpr double least_look = 0.2, seconds_to_stop = 600;
// sbatch can time out at the controller and still have submitted the job.
constexpr double seconds_to_appear = 60;

std::string new_id() {
  std::random_device random;
  return fmt::format("{:08x}", random() & 0xffffffffU);
}

// Unknown whether the job was submitted.
bool is_doubtful(const std::string& refusal) {
  for (const char* const words : {"imed out", "ontact", "no answer", "ero Bytes", "ommunication"}) {
    if (refusal.find(words) != std::string::npos) return true;
  }
  return false;
}

// The ranks were killed from outside, not by a fault of their hosts.
bool ended_by_scheduler(const std::string& state) {
  for (const char* const word : {"PREEMPTED", "CANCELLED", "TIMEOUT", "DEADLINE"}) {
    if (state.starts_with(word)) return true;
  }
  return false;
}

CampaignState state_in(const CampaignFile& file, const CampaignLayouts& layouts) {
  CampaignState state = load_state(file.directory).value_or(CampaignState{});
  if (state.id.empty()) {
    state.id = new_id();
    state.created = wall_clock();
  }
  // An extended run resumes. Restarting a campaign that gave up is another try.
  if (state.outcome == CampaignState::Outcome::done && state.steps != layouts.steps)
    state.outcome = CampaignState::Outcome::going;
  if (state.outcome == CampaignState::Outcome::given_up)
    state.counted_from = state.attempts.back().number + 1;
  state.steps = layouts.steps;
  return state;
}

void make_directories(const CampaignFile& file) {
  std::error_code error;
  fs::create_directories(file.directory + "/attempts", error);
  if (error) {
    fail(code_of_failed_write(error.value(), ExitCode::config),
         "{}: {}: cannot be created: {}; choose another directory", file.where("directory"),
         file.directory, error.message());
  }
}

std::string joined(std::string text, const std::string& more) {
  if (!text.empty() && !more.empty()) text += ": ";
  return text + more;
}

}  // namespace

std::string stop_file_in(const std::string& directory) {
  return directory + "/stop";
}

Campaign::Campaign(CampaignFile file)
    : file_(std::move(file)),
      layouts_(campaign_layouts(file_)),
      rules_(rules_of(file_)),
      control_(file_.under_slurm() ? make_slurm_control(file_) : make_host_control(file_)),
      owner_(file_.directory, 3, "directory"),
      journal_(file_.directory) {
  retry_on_disk_full([&] {
    make_directories(file_);
    owner_.take();
  });
  state_ = state_in(file_, layouts_);
}

int Campaign::run(bool stop) {
  if (!stop) {
    std::error_code ignored;
    fs::remove(stop_file_in(file_.directory), ignored);
  }
  if (state_.outcome == Outcome::done) {
    journal_.note("the campaign is done; " + goodput_text(state_, state_.ended));
    return exit_code();
  }
  state_.outcome = Outcome::going;
  state_.ended = 0;
  journal_.note(fmt::format("campaign {} of {} in {}: {}", state_.id, file_.path, file_.directory,
                            text_of(layouts_)));
  save();
  while (state_.outcome == Outcome::going && !interrupted_) {
    const double seconds = poll();
    journal_.show(state_, wall_clock());
    if (state_.outcome == Outcome::going && !pause(seconds)) interrupted_ = true;
  }
  if (state_.outcome == Outcome::going) {
    const Attempt* const job = state_.current();
    journal_.note(
        fmt::format("interrupted{}; start the campaign again to follow it, or end it with "
                    "`trireme campaign stop {}`",
                    job == nullptr ? "" : "; the job continues", file_.path));
    return static_cast<int>(ExitCode::requeue);
  }
  fmt::print("{}", status_text(state_, file_.directory, wall_clock()));
  return exit_code();
}

int Campaign::exit_code() const {
  switch (state_.outcome) {
    case Outcome::done:
      return 0;
    case Outcome::failed:
      return state_.attempts.empty() || state_.attempts.back().started == 0
                 ? static_cast<int>(ExitCode::config)
                 : state_.attempts.back().code;
    case Outcome::given_up:
      return static_cast<int>(ExitCode::given_up);
    default:
      return static_cast<int>(ExitCode::requeue);
  }
}

bool Campaign::stop_is_asked() const {
  std::error_code ignored;
  return fs::exists(stop_file_in(file_.directory), ignored);
}

void Campaign::waits(const std::string& text) {
  if (state_.text == text) return;
  state_.text = text;
  journal_.note(text);
  save();
}

// State is saved before anything acts on it.
void Campaign::save() {
  retry_on_disk_full([&] {
    owner_.require();
    save_state(file_.directory, state_);
  });
}

void Campaign::retry_on_disk_full(const std::function<void()>& write) {
  bool said = false;
  for (;;) {
    try {
      return write();
    } catch (const Error& error) {
      if (error.code() == ExitCode::config || interrupted_) throw;
      if (!std::exchange(said, true))
        journal_.note(fmt::format("{}; waiting for free space", error.what()));
      if (!pause(std::max(1.0, least_look))) {
        interrupted_ = true;
        throw;
      }
    }
  }
}

bool Campaign::pause(double seconds) {
  const double until = wall_clock() + seconds;
  const bool asked = stop_is_asked();
  const Attempt* const job = state_.current();
  const std::string place = job == nullptr ? "" : attempt_directory(file_, *job);
  const bool locked = job != nullptr && attempt_is_locked(place);
  for (;;) {
    const double left = std::clamp(until - wall_clock(), 0.0, 1.0);
    if (signal_within(stop_signals, left) > 0) return false;
    // A stop file or a signal ends the pause.
    if (wall_clock() >= until || stop_is_asked() != asked) return true;
    if (locked && !attempt_is_locked(place)) return true;
  }
}

double Campaign::poll() {
  if (Attempt* const attempt = state_.current()) return follow(*attempt);
  if (stop_is_asked()) {
    end(Outcome::stopped, "as requested; start the campaign again to continue from the checkpoint");
    return 0;
  }
  return next_attempt();
}

void Campaign::end(Outcome outcome, const std::string& reason) {
  state_.outcome = outcome;
  state_.text = reason;
  state_.ended = wall_clock();
  std::error_code ignored;
  fs::remove(stop_file_in(file_.directory), ignored);
  journal_.note(fmt::format("{}: {}", name_of(outcome), reason));
  save();
}

// If nothing can run without the excluded hosts, they are used again.
Offers Campaign::offers_or_forgiven(double now) {
  const auto excluded = state_.excluded_hosts(now);
  Offers found = control_->offers(layouts_.options, excluded, nullptr);
  if (!found.offers.empty() || excluded.empty() || found.permanent) return found;
  Offers all = control_->offers(layouts_.options, {}, nullptr);
  if (all.offers.empty()) return found;
  std::erase_if(state_.excluded, [&](const Exclusion& each) { return each.until <= now; });
  const auto first = std::ranges::min_element(state_.excluded, {}, &Exclusion::until);
  journal_.note(fmt::format("{} is no longer left out: nothing can run without it", first->host));
  state_.excluded.erase(first);
  save();
  return offers_or_forgiven(now);
}

double Campaign::next_attempt() {
  const double now = wall_clock();
  const RunProgress progress = read_progress(file_.run_directory(), 0);
  // Decisions without offers come first.
  Decision decision = decide_next(state_, layouts_.options, {}, rules_, progress.checkpoint, now);
  if (decision.action == Decision::Action::wait && decision.until <= now) {
    const Offers found = offers_or_forgiven(now);
    if (found.permanent) {
      end(Outcome::failed, fmt::format("{}: refused: {}", file_.where("slurm"), found.problem));
      return 0;
    }
    decision =
        decide_next(state_, layouts_.options, found.offers, rules_, progress.checkpoint, now);
    if (decision.action == Decision::Action::wait)
      decision.reason = joined(decision.reason, found.problem);
  }
  switch (decision.action) {
    case Decision::Action::end:
      end(decision.outcome, decision.reason);
      return 0;
    case Decision::Action::submit:
      submit(decision);
      return state_.current() == nullptr ? file_.poll_seconds : least_look;
    default:
      waits(decision.reason);
      return decision.until > now ? std::min(decision.until - now, file_.poll_seconds)
                                  : file_.poll_seconds;
  }
}

void Campaign::submit(const Decision& decision) {
  const LayoutOption& option = layouts_.options[decision.option];
  const double now = wall_clock();
  Attempt attempt{.number = state_.attempts.empty() ? 1 : state_.attempts.back().number + 1,
                  .place = decision.place,
                  .nodes = option.nodes,
                  .ranks = option.ranks,
                  .layout = option.text,
                  .settings = option.settings,
                  .predicted_step = option.step_seconds,
                  .submitted = now,
                  .from_step = read_progress(file_.run_directory(), 0).checkpoint};
  attempt.name = fmt::format("trireme-{}-{:04}", state_.id, attempt.number);
  // Of consecutive refusals only the last is kept.
  if (!state_.attempts.empty() && state_.attempts.back().started == 0) state_.attempts.pop_back();
  std::error_code error;
  fs::create_directories(attempt_directory(file_, attempt), error);
  if (error)
    return waits(fmt::format("{}: {}", attempt_directory(file_, attempt), error.message()));
  const auto allowed = seconds_allowed(state_, rules_, attempt.nodes, now);
  state_.attempts.push_back(std::move(attempt));
  save();  // from here on this name is searched for before another submission
  Attempt& job = state_.attempts.back();
  const std::string refusal = control_->submit(job, allowed, state_.excluded_hosts(now));
  if (refusal.empty()) {
    job.phase = Attempt::Phase::submitted;
    state_.text.clear();
    save();
    journal_.note(fmt::format("job {}{}: {} nodes as {} from step {}; {}", job.number,
                              job.job.empty() ? "" : " (" + job.job + ")", job.nodes, job.layout,
                              job.from_step, decision.reason));
    return;
  }
  if (is_doubtful(refusal))
    return waits(fmt::format("job {}: {}; looking for it", job.number, refusal));
  if (control_->look(job).kind != JobReport::Kind::absent) return;
  never_ran(job, refusal);
  if (is_permanent(refusal))
    end(Outcome::failed, fmt::format("{}: refused: {}", file_.where("slurm"), refusal));
}

void Campaign::never_ran(Attempt& attempt, const std::string& reason) {
  attempt.phase = Attempt::Phase::ended;
  attempt.ended = wall_clock();
  attempt.to_step = attempt.from_step;
  attempt.reason = reason;
  waits(fmt::format("job {} was not submitted: {}", attempt.number, reason));
  save();
}

void Campaign::update(Attempt& attempt, const JobReport& report) {
  const Attempt before = attempt;
  if (attempt.job.empty()) attempt.job = report.job;
  if (attempt.hosts.empty()) attempt.hosts = report.hosts;
  if (report.kind == JobReport::Kind::waiting) {
    attempt.phase = Attempt::Phase::submitted;
  } else if (report.kind == JobReport::Kind::running) {
    attempt.phase = Attempt::Phase::running;
    if (attempt.started == 0) attempt.started = report.started > 0 ? report.started : wall_clock();
    const RunProgress progress = read_progress(file_.run_directory(), attempt.from_step);
    attempt.step_seconds = progress.step_seconds;
    if (attempt.first_step == 0 && progress.step_seconds > 0) attempt.first_step = wall_clock();
  }
  if (before.phase != attempt.phase) {
    if (attempt.phase == Attempt::Phase::running)
      journal_.note(
          fmt::format("job {} runs on {}", attempt.number, fmt::join(attempt.hosts, ", ")));
    state_.text.clear();
  }
  if (before.phase != attempt.phase || before.first_step != attempt.first_step ||
      before.job != attempt.job)
    save();
}

std::optional<Decision> Campaign::better(const Attempt& attempt, double now) {
  const RunProgress progress = read_progress(file_.run_directory(), 0);
  const std::int64_t step = std::max(progress.step, attempt.from_step);
  const auto decide = [&](const std::vector<Offer>& offers) {
    return decide_running(state_, layouts_.options, offers, rules_, step, now);
  };
  if (Decision limit = decide({}); limit.action == Decision::Action::stop) return limit;
  const bool runs = attempt.phase == Attempt::Phase::running;
  const double since = now - (runs ? attempt.started : attempt.submitted);
  // A waiting job is given up sooner than a running one.
  const double patience = runs ? rules_.better_after_seconds : rules_.better_after_seconds / 4;
  if (attempt.asked_to_stop > 0 || since < patience || (runs && rules_.gain == 0)) return {};
  Offers found =
      control_->offers(layouts_.options, state_.excluded_hosts(now), runs ? &attempt : nullptr);
  std::erase_if(found.offers, [](const Offer& offer) { return offer.wait_seconds > 0; });
  Decision decision = decide(found.offers);
  if (decision.action != Decision::Action::stop) return {};
  return decision;
}

void Campaign::ask_to_stop(Attempt& attempt, const std::string& reason) {
  attempt.asked_to_stop = wall_clock();
  attempt.reason = reason;
  journal_.note(fmt::format("job {} is stopped: {}", attempt.number, reason));
  save();
  control_->stop(attempt, /*at_once=*/false);
}

double Campaign::follow(Attempt& attempt) {
  const JobReport report = control_->look(attempt);
  switch (report.kind) {
    case JobReport::Kind::unknown:
      waits(report.state);
      return file_.poll_seconds;
    case JobReport::Kind::absent:
      if (attempt.phase == Attempt::Phase::intended) {
        if (file_.under_slurm() && wall_clock() - attempt.submitted < seconds_to_appear) {
          waits(fmt::format("job {} may have been submitted: looking for it", attempt.number));
          return std::min(1.0, file_.poll_seconds);
        }
        never_ran(attempt, "there is no job with this name");
        return least_look;
      }
      break;
    case JobReport::Kind::ended:
      break;
    default:
      update(attempt, report);
      if (report.kind == JobReport::Kind::waiting) {
        if (never_starts(report.state)) {
          control_->stop(attempt, /*at_once=*/true);
          never_ran(attempt, "it would never start: " + report.state);
          end(Outcome::failed, fmt::format("{}: {}{}", file_.where("slurm"), attempt.reason,
                                           advice_for(report.state)));
          return 0;
        }
        waits(fmt::format("job {} waits: {}", attempt.number, report.state));
      }
      if (attempt.asked_to_stop > 0) {
        const bool late = wall_clock() - attempt.asked_to_stop > seconds_to_stop;
        if (late || stop_again_) control_->stop(attempt, late);
      } else if (stop_is_asked()) {
        ask_to_stop(attempt, "as requested");
      } else if (const auto decision = better(attempt, wall_clock())) {
        ask_to_stop(attempt, decision->reason);
      }
      stop_again_ = false;
      return attempt.asked_to_stop > 0 ? std::min(1.0, file_.poll_seconds) : file_.poll_seconds;
  }
  finish(attempt, report);
  return least_look;
}

void Campaign::exclude_blamed(const Attempt& attempt, const JobReport& report,
                              const std::string& log) {
  const double until = wall_clock() + 3600 * file_.exclude_hours;
  const auto exclude = [&](const std::string& host, const std::string& reason) {
    if (file_.exclude_hours == 0) return;
    auto left = static_cast<std::int64_t>(file_.hosts.size());
    for (const std::string& other : state_.excluded_hosts(wall_clock()))
      left -= other == host ? 0 : std::ranges::count(file_.hosts, other);
    if (!file_.under_slurm() && left - 1 < file_.min_nodes) {
      journal_.note(fmt::format("{}: {}; it is still used, because nodes.min = {} hosts are needed",
                                host, reason, file_.min_nodes));
      return;
    }
    state_.exclude(host, fmt::format("job {}: {}", attempt.number, reason), until);
    journal_.note(fmt::format("{} is left out for {:g} h: {}", host, file_.exclude_hours, reason));
  };
  for (const std::string& host : report.lost_hosts)
    exclude(host, "does not answer");
  if (!report.lost_hosts.empty()) return;  // reports about other ranks are consequences of the loss
  for (const Blame& blame : blamed_hosts(log, attempt.hosts, file_.ranks_per_node))
    exclude(blame.host, blame.reason);
}

void Campaign::finish(Attempt& attempt, const JobReport& report) {
  update(attempt, report);
  const std::string log = runs::end_of_file(attempt_log(file_, attempt), std::uint64_t{256} << 10U);
  const std::string message = last_message(log);
  const RunProgress progress = read_progress(file_.run_directory(), attempt.from_step);
  attempt.phase = Attempt::Phase::ended;
  if (attempt.started == 0) attempt.started = report.started;
  // A job that was cancelled before its start has no start time, or one equal to its end.
  const double now = wall_clock();
  attempt.ended = report.ended > attempt.started ? std::min(report.ended, now) : now;
  attempt.code =
      report.code.value_or(attempt.asked_to_stop > 0 ? static_cast<int>(ExitCode::requeue)
                                                     : static_cast<int>(ExitCode::communication));
  // A run may reach its target before its last step.
  const std::int64_t last = progress.step > 0 ? progress.step : state_.steps;
  attempt.to_step = attempt.code == 0 ? last : std::max(progress.checkpoint, attempt.from_step);
  attempt.step_seconds = progress.step_seconds;
  if (attempt.first_step == 0 && progress.step_seconds > 0) attempt.first_step = attempt.ended;
  const Outcome outcome = attempt.code == 0                     ? Outcome::done
                          : would_come_again(attempt.code, log) ? Outcome::failed
                                                                : Outcome::going;
  if (attempt.code != 0) {
    attempt.reason =
        joined(attempt.reason,
               joined(report.state == "COMPLETED" || report.state == "FAILED" ? "" : report.state,
                      attempt.code == static_cast<int>(ExitCode::requeue) ? "" : message));
    if (attempt.reason.empty()) attempt.reason = "stopped with a checkpoint";
  } else {
    attempt.reason = "done";
    state_.weights = final_bits(attempt_log(file_, attempt));
  }
  if (attempt.code != 0 && attempt.asked_to_stop == 0 && outcome == Outcome::going &&
      attempt.code != static_cast<int>(ExitCode::requeue) && !ended_by_scheduler(report.state))
    exclude_blamed(attempt, report, log);
  journal_.note(fmt::format("job {} ended with code {} at step {}: {}", attempt.number,
                            attempt.code, attempt.to_step, attempt.reason));
  state_.text.clear();
  save();
  if (outcome == Outcome::done) {
    end(outcome, "the run is complete");
  } else if (outcome == Outcome::failed) {
    end(outcome, fmt::format("starting again would not help: {}; see {}", attempt.reason,
                             attempt_log(file_, attempt)));
  }
}

}  // namespace trireme::campaign
