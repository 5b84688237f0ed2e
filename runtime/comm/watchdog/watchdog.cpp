// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/watchdog.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>

#include "runtime/base/log.h"
#include "runtime/base/output_directory.h"
#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/comm/watchdog/watch_signal.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;
using Clock = CallLog::Clock;

constexpr auto answer_patience = 2s;
// After this time a rank that was asked no longer expects the asking rank to end the job.
constexpr auto end_patience = 5s;
constexpr unsigned last_resort_s = 12;
// Limit within a step after SIGTERM; checkpoints are exempt.
constexpr auto longest_in_a_hurry = 15s;
constexpr auto longest_pause = 250ms;
constexpr auto pause_in_report = 10ms;
// Open MPI kills all ranks a second after SIGTERM, or as soon as the first of them has ended: a
// rank that has written its dump leaves its peers the time to write theirs.
constexpr auto patience_with_peers = 500ms;
// A process that did not run for this long was suspended, and probably its peers too.
constexpr auto stopped_gap = 2s;

void write_file_now(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  const FileDescriptor file =
      OutputDirectory(path.parent_path(), ExitCode::internal).create(path.filename(), O_WRONLY);
  write_fully(file, path, std::as_bytes(std::span(text)), ExitCode::internal);
}

std::thread start_thread(Watchdog* self, void (*body)(Watchdog*)) {
  // Only the main thread handles signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(body, self);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread.native_handle(), "trireme-watch");
  return thread;
}

}  // namespace

std::shared_ptr<Watchdog> Watchdog::of_process(const WatchOptions& options) {
  static std::mutex guard;
  static std::weak_ptr<Watchdog> current;
  const std::lock_guard lock(guard);
  auto watchdog = current.lock();
  if (watchdog == nullptr) {
    watchdog = std::make_shared<Watchdog>(options);
    current = watchdog;
  }
  return watchdog;
}

Watchdog::Watchdog(const WatchOptions& options)
    : options_(options),
      deadline_(std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(options.deadline_seconds))) {
  WatchSignal::install();
  thread_ = start_thread(this, [](Watchdog* self) { self->run(); });
}

Watchdog::~Watchdog() {
  stop_ = true;
  WatchSignal::wake();
  thread_.join();
  WatchSignal::uninstall();
  if (dumped_on_sigterm_ && std::uncaught_exceptions() == 0) ::unlink(dump_path().c_str());
}

void Watchdog::add(std::shared_ptr<CallLog> log, std::shared_ptr<WatchMarks> marks) {
  const std::lock_guard lock(mutex_);
  groups_.push_back({std::move(log), std::move(marks)});
}

void Watchdog::retire(const CallLog* log) {
  const std::lock_guard lock(mutex_);
  for (Watched& watched : groups_) {
    if (watched.log.get() == log) watched.retired = true;
  }
}

CallLogs Watchdog::logs() {
  CallLogs result;
  const std::lock_guard lock(mutex_);
  for (const Watched& watched : groups_)
    result.push_back(watched.log);
  return result;
}

void Watchdog::run() {
  const auto usual = std::clamp<Clock::duration>(deadline_ / 8, 5ms, longest_pause);
  while (!stop_) {
    WatchSignal::wait(report_ || led_by_ >= 0 ? pause_in_report : usual);
    if (stop_) break;
    try {
      turn(Clock::now());
    } catch (const std::exception& error) {
      // Nothing else would end a stuck job: continues without the peers' help.
      lose_channel(error.what());
    }
  }
  if (report_ && led_by_ < 0) conclude();
}

void Watchdog::turn(Clock::time_point now) {
  if (now - last_turn_ > stopped_gap) awake_since_ = now;
  last_turn_ = now;
  look_at_marks();
  if (const auto request = WatchSignal::take(); request != WatchSignal::Request::none) {
    if (request == WatchSignal::Request::hurry) {
      dump_on_sigterm();
    } else {
      dump(request == WatchSignal::Request::dump ? "requested by this process"
                                                 : "ended from outside (SIGTERM)");
    }
    if (request == WatchSignal::Request::terminate) {
      std::this_thread::sleep_for(patience_with_peers);
      WatchSignal::end_process();
    }
    hurried_ = hurried_ || request == WatchSignal::Request::hurry;
    dumped_ = false;
  }
  answer_notes();
  if (report_ || led_by_ >= 0) {
    if (Clock::now() > give_up_ || (led_by_ < 0 && report_->complete())) conclude();
  } else {
    look_for_trouble(now);
  }
}

Clock::duration Watchdog::deadline_now() const {
  if (!hurried_) return deadline_;
  const auto activity = current_activity();
  if (!activity || activity->what == saving_activity) return deadline_;
  return std::min<Clock::duration>(deadline_, longest_in_a_hurry);
}

void Watchdog::look_at_marks() {
  const std::lock_guard lock(mutex_);
  for (const Watched& watched : groups_)
    watched.marks->look();
}

void Watchdog::answer_notes() {
  WatchNote note;
  while (channel_works_ && channel_.receive(note)) {
    if (note.kind == WatchNote::Kind::answer) {
      if (report_) report_->answer(note);
      continue;
    }
    const int asker = note.from;
    const CallLogs all = logs();
    dump(fmt::format("rank {} is stuck and ends the job; see its message", asker));
    answer_ask(note, all, rank());
    channel_.send(asker, note);
    const int leader = led_by_ >= 0 ? led_by_ : report_ ? rank() : size();
    if (asker >= leader) continue;
    led_by_ = asker;
    give_up_ = Clock::now() + end_patience;
    arm_last_resort(last_resort_s, static_cast<int>(ExitCode::communication));
  }
}

void Watchdog::look_for_trouble(Clock::time_point now) {
  const auto deadline = deadline_now();
  if (now - awake_since_ < deadline) return;
  const auto before = now - deadline;
  CallLogs stuck;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(groups_, [](const Watched& w) { return w.retired && w.log->over(); });
    for (const Watched& watched : groups_) {
      if (watched.log->stuck_since(before)) stuck.push_back(watched.log);
    }
  }
  report_ = WatchReport::of_stuck_call(stuck, before, rank(), size());
  if (!report_) look_for_stuck_step(before);
  if (report_) ask();
}

// A rank that waits for others is not at fault: the call's own deadline applies.
void Watchdog::look_for_stuck_step(Clock::time_point before) {
  const auto activity = current_activity();
  if (!activity || activity->since >= before) return;
  for (const auto& log : logs()) {
    if (log->waits()) return;
  }
  report_ = WatchReport::of_stuck_step(activity->to_string(), rank(), size());
}

void Watchdog::ask() {
  arm_last_resort(last_resort_s, static_cast<int>(ExitCode::communication));
  give_up_ = Clock::now() + answer_patience;
  dump(report_->headline());
  for (const WatchReport::Question& question : report_->questions()) {
    if (channel_works_) channel_.send(question.to, question.note);
  }
}

void Watchdog::conclude() {
  std::string text = fmt::format("rank {} is stuck but did not end the job", led_by_);
  if (report_) text = report_->message(std::chrono::duration<double>(deadline_now()).count());
  if (!options_.directory.empty()) {
    text += fmt::format("\n  the last calls of every rank: {}/collectives.rank*.txt",
                        options_.directory);
  }
  print_error(text);
  // Nothing handles the launcher's SIGTERM any more; waiting for it would cost a second.
  WatchSignal::uninstall();
  abort_job(static_cast<int>(ExitCode::communication));
}

void Watchdog::dump(const std::string& why) {
  if (std::exchange(dumped_, true) || options_.directory.empty()) return;
  dumped_on_sigterm_ = false;
  try {
    write_file_now(dump_path(), dump_text(logs(), why));
  } catch (const std::exception& error) {
    print_error(error.what());
  }
}

// Outside of steps there is nothing to dump: a refused command leaves no file.
void Watchdog::dump_on_sigterm() {
  if (dumped_ || !current_activity()) return;
  dump("asked to end (SIGTERM or SIGINT)");
  dumped_on_sigterm_ = !options_.directory.empty();
}

std::string Watchdog::dump_path() const {
  return fmt::format("{}/collectives.rank{}.txt", options_.directory, rank());
}

void Watchdog::lose_channel(const char* reason) {
  if (!std::exchange(channel_works_, false)) return;
  print_error(fmt::format("the watchdog continues without answers from other ranks: {}", reason));
}

}  // namespace trireme
