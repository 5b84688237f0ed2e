// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/start_watch.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/watchdog/watch_signal.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Pause of a rank that waits, and of one that only answers.
constexpr auto short_pause = 50ms, long_pause = 250ms;
// A process that did not run for longer was suspended.
constexpr std::chrono::duration<double> longest_turn = 1s;
constexpr auto start_answer_patience = 2s;
// After this time a rank that was asked no longer expects the asking rank to end the job.
constexpr auto start_end_patience = 5s;
// In seconds of the whole wait, after SIGTERM.
constexpr double longest_mpi_init_in_a_hurry = 5;
constexpr double longest_hurried_start = 15;
constexpr std::size_t waits_in_message = 16;

// The waits of all threads, oldest first.
struct Waits {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<StartWait::Entry> entries;
};

Waits& waits() {
  static auto* const instance = new Waits;  // threads may wait until the process ends
  return *instance;
}

struct Note {
  enum class Kind : std::int32_t { ask, answer };
  Kind kind = Kind::ask;
  std::int32_t from = 0;
  std::array<char, 56> text{};  // where the sender waits; zero-terminated
};

}  // namespace

double usual_start_seconds(int ranks) {
  constexpr double seconds = 120, of_rank_beyond = 0.25;
  constexpr int enough_for = 128;
  return seconds + of_rank_beyond * std::max(0, ranks - enough_for);
}

double start_seconds() {
  const char* const text = std::getenv(start_seconds_variable);
  if (text == nullptr || *text == '\0') {
    std::optional<std::int64_t> ranks = launched_ranks();
    if (!ranks) ranks = environment_number("WORLD_SIZE", 1, std::numeric_limits<int>::max());
    return usual_start_seconds(static_cast<int>(ranks.value_or(1)));
  }
  double value = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  constexpr double max_seconds = 1e6;
  if (error != std::errc() || rest != end || !(value >= 0 && value <= max_seconds)) {
    fail(ExitCode::config, "{}={}: is not a number of seconds from 0 (no deadline) to {}",
         start_seconds_variable, text, max_seconds);
  }
  return value;
}

StartWait::StartWait(std::string_view what, Stage stage, double seconds) {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  entry_ = all.entries.insert(all.entries.end(), {.what = what, .stage = stage, .limit = seconds});
  all.changed.notify_all();
}

StartWait::~StartWait() {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  all.entries.erase(entry_);
}

// See Note [The end of a job that does not start].
class StartWatch::Thread {
 public:
  Thread() {
    // Only the main thread handles signals.
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread_.native_handle(), "trireme-start");
  }
  ~Thread() {
    {
      const std::lock_guard lock(waits().mutex);
      stop_ = true;
    }
    waits().changed.notify_all();
    thread_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void ask_over(std::unique_ptr<Transfers> job) {
    const std::lock_guard lock(job_mutex_);
    job_ = std::move(job);
  }

 private:
  void run() {
    auto last = Clock::now();
    for (;;) {
      std::optional<StartWait::Entry> oldest;
      {
        Waits& all = waits();
        std::unique_lock lock(all.mutex);
        all.changed.wait_for(lock, all.entries.empty() ? long_pause : short_pause);
        if (stop_) return;
        const auto now = Clock::now();
        const double turn =
            std::min<std::chrono::duration<double>>(now - last, longest_turn).count();
        last = now;
        for (StartWait::Entry& entry : all.entries) {
          entry.waited += turn;
          if (!oldest || (!is_over(*oldest) && is_over(entry))) oldest = entry;
        }
      }
      const std::lock_guard lock(job_mutex_);
      answer_notes(oldest);
      if (oldest && is_over(*oldest)) {
        end(*oldest);
      } else if (Clock::now() > give_up_) {
        asked_ = false;
        led_by_ = -1;
      }
    }
  }

  static bool is_over(const StartWait::Entry& entry) {
    if (WatchSignal::told_to_stop()) {
      if (entry.stage == StartWait::Stage::rendezvous) return true;
      const double max_seconds = entry.stage == StartWait::Stage::mpi_init
                                     ? longest_mpi_init_in_a_hurry
                                     : longest_hurried_start;
      if (entry.waited > max_seconds) return true;
    }
    return entry.limit > 0 && entry.waited > entry.limit;
  }

  // Ends the job, unless a lower rank will.
  void end(const StartWait::Entry& wait) {
    if (WatchSignal::told_to_stop() && wait.stage != StartWait::Stage::joined) {
      // Silently: launchers send SIGTERM to the peers of a rank that has reported.
      std::signal(SIGTERM, SIG_DFL);
      sigset_t only;
      sigemptyset(&only);
      sigaddset(&only, SIGTERM);
      pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
      std::raise(SIGTERM);
    }
    if (!job_) {
      here_ = ranks_here();
      std::this_thread::sleep_for(time_for_others());
    }
    if (job_ && !asked_) ask();
    const auto now = Clock::now();
    if (now < give_up_ && (led_by_ >= 0 || answers_left_ > 0)) return;
    print_error(message(wait));
    abort_job(static_cast<int>(ExitCode::communication));
  }

  // If ranks cannot ask each other, one message is enough: from the lowest rank on the host that
  // knows who is missing.
  [[nodiscard]] std::chrono::milliseconds time_for_others() const {
    constexpr std::int64_t most = std::numeric_limits<int>::max(), last = 10;
    const auto rank = environment_number("RANK", 0, most).value_or(launched_rank().value_or(0));
    const bool others_know = here_.missing.empty() && ranks_elsewhere() > 0;
    return std::min(rank, last) * 300ms + (others_know ? 300ms * (last + 1) : 0ms);
  }

  [[nodiscard]] std::int64_t ranks_elsewhere() const {
    return launched_ranks().value_or(0) - std::ssize(here_.found);
  }

  void ask() {
    asked_ = true;
    answers_.assign(static_cast<std::size_t>(job_->size()), std::nullopt);
    answers_left_ = job_->size() - 1;
    if (led_by_ < 0) give_up_ = Clock::now() + start_answer_patience;
    guarded([&] {
      for (int rank = 0; rank < job_->size(); ++rank) {
        if (rank != job_->rank()) send(rank, {.kind = Note::Kind::ask, .from = job_->rank()});
      }
    });
  }

  void answer_notes(const std::optional<StartWait::Entry>& wait) {
    Note note;
    guarded([&] {
      while (job_ && job_->receive_note(reinterpret_cast<std::byte*>(&note), sizeof(note))) {
        if (note.from < 0 || note.from >= job_->size()) continue;
        if (note.kind == Note::Kind::answer) {
          take_answer(note);
          continue;
        }
        Note answer{.kind = Note::Kind::answer, .from = job_->rank()};
        if (wait) wait->what.copy(answer.text.data(), answer.text.size() - 1);
        send(note.from, answer);
        if (note.from >= (led_by_ >= 0 ? led_by_ : job_->rank())) continue;
        led_by_ = note.from;
        give_up_ = Clock::now() + start_end_patience;
      }
    });
  }

  void take_answer(Note& note) {
    const auto from = static_cast<std::size_t>(note.from);
    if (from >= answers_.size() || answers_[from]) return;
    note.text.back() = '\0';
    answers_[from] = note.text.data();
    --answers_left_;
  }

  std::string message(const StartWait::Entry& wait) const {
    std::string text = fmt::format("{} has waited {:.0f} s for other ranks (deadline {}: {:g})",
                                   wait.what, wait.waited, start_seconds_variable, wait.limit);
    if (!job_) return text + message_of_host();
    std::size_t lines = 0;
    for (std::size_t rank = 0; rank < answers_.size(); ++rank) {
      std::string line;
      if (static_cast<int>(rank) == job_->rank()) continue;
      if (!answers_[rank]) {
        line = "does not answer: the process is stopped, dead, unreachable or has ended";
      } else if (*answers_[rank] != wait.what) {
        line = answers_[rank]->empty() ? "is alive, but has not reached this point yet"
                                       : "waits elsewhere: " + *answers_[rank];
      }
      if (!line.empty() && ++lines <= waits_in_message)
        text += fmt::format("\n  rank {} {}", rank, line);
    }
    if (lines > waits_in_message) text += fmt::format("\n  and {} more", lines - waits_in_message);
    if (lines == 0) text += "\n  every rank waits here: the network does not carry their messages";
    return text;
  }

  [[nodiscard]] std::string message_of_host() const {
    std::string text;
    for (std::size_t i = 0; i < std::min(here_.missing.size(), waits_in_message); ++i)
      text += "\n  " + here_.missing[i];
    if (here_.missing.size() > waits_in_message)
      text += fmt::format("\n  and {} more", here_.missing.size() - waits_in_message);
    if (!text.empty()) return text;
    text = "; a rank was not started, is stopped, or cannot be reached";
    if (here_.found.empty() || ranks_elsewhere() <= 0) return text;
    return text +
           fmt::format(
               ": it is not one of the {} on {}; the state of the {} on other hosts is unknown",
               here_.found.size(), host_name(), ranks_elsewhere());
  }

  void send(int to, const Note& note) {
    const Note& kept = sent_.emplace_back(note);
    job_->send(reinterpret_cast<const std::byte*>(&kept), sizeof(kept), to, MessageTag::note);
  }

  // A network failure must not make it wait for ever.
  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const std::exception& error) {
      print_error(fmt::format("ranks cannot ask each other for their state: {}", error.what()));
      job_.reset();
    }
  }

  bool stop_ = false;  // guarded by waits().mutex
  RanksHere here_;     // for a wait in which no rank can be asked
  std::mutex job_mutex_;
  std::unique_ptr<Transfers> job_;
  std::list<Note> sent_;  // kept: the job ends after its first notes
  bool asked_ = false;
  std::vector<std::optional<std::string>> answers_;  // by rank
  int answers_left_ = 0;
  int led_by_ = -1;  // the rank that will end the job
  Clock::time_point give_up_;
  std::thread thread_;  // last: it uses all members above
};

StartWatch::StartWatch() : thread_(std::make_unique<Thread>()) {}

StartWatch::~StartWatch() = default;

void StartWatch::ask_over(std::unique_ptr<Transfers> job) {
  thread_->ask_over(std::move(job));
}

}  // namespace trireme
