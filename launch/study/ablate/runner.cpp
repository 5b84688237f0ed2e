// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/runner.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "launch/study/ablate/comparison.h"
#include "launch/study/ablate/prefixes.h"
#include "launch/study/study_directory.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/run_owner.h"

namespace trireme::ablate {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::json;

// A directory name; its number distinguishes variants whose names are cut or changed here.
std::string slug(std::size_t index, const std::string& name) {
  std::string safe = fmt::format("{:03}-", index);
  for (const char letter : name.substr(0, 80)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                       std::string_view("=.,_+-").find(letter) != std::string_view::npos;
    safe += plain ? letter : '_';
  }
  return safe;
}

// A segment of one seed.
struct Task {
  std::size_t seed = 0;  // index
  std::vector<std::size_t> members{};
  std::int64_t from = 0, to = 0;
  bool last = false;                     // `to` is the last step of its run
  std::string place{};                   // directory of the run directory and its logs
  std::string before{};                  // place of the run that it continues; "": none
  std::uint64_t digest = 0;              // of what is run, in any directory
  std::vector<std::string> arguments{};  // of `trireme`

  [[nodiscard]] std::string run() const { return place + "/run"; }
  // "PLACE/steps-00000001-00000100."
  [[nodiscard]] std::string prefix() const {
    return fmt::format("{}/steps-{:08}-{:08}.", place, from + 1, to);
  }
  [[nodiscard]] std::string mark() const { return prefix() + "done.json"; }
};

bool is_marked(const Task& task) {
  const auto text = read_file_if_exists(task.mark(), 1 << 16, ExitCode::config);
  const json mark = text ? json_or_discarded(*text) : json();
  const json digest = mark.is_object() ? mark.value("digest", json()) : json();
  return digest == fmt::format("{:016x}", task.digest) &&
         has_reached(task.run(), task.to, task.last);
}

// Members of one seed that were alike up to `step`.
struct Branch {
  std::size_t seed = 0;
  std::vector<std::size_t> members{};
  std::string place{};  // "" before the first step
  std::int64_t step = 0;
};

class Ablation {
 public:
  Ablation(const Study& study, const studies::Launcher& launcher,
           const studies::RunnerOptions& options)
      : study_(study), options_(options), jobs_(launcher, options) {
    for (std::size_t variant = 0; variant < study.variants.size(); ++variant)
      for (std::size_t seed = 0; seed < study.seeds.size(); ++seed)
        result_.cells.push_back({.variant = variant, .seed = seed});
  }

  AblationResult run() {
    std::vector<Branch> branches;
    for (std::size_t seed = 0; seed < study_.seeds.size(); ++seed) {
      Branch branch{.seed = seed};
      for (std::size_t variant = 0; variant < study_.variants.size(); ++variant)
        branch.members.push_back(variant);
      branches.push_back(std::move(branch));
    }
    std::vector<std::int64_t> limits = study_.halving.at;
    std::int64_t longest = 0;
    for (std::size_t variant = 0; variant < study_.variants.size(); ++variant)
      longest = std::max(longest, study_.steps_of(variant));
    limits.push_back(longest);
    for (const std::int64_t limit : limits) {
      limit_ = limit;
      reached_.clear();
      for (const Branch& branch : std::exchange(branches, {}))
        expand(branch);
      result_.interrupted = jobs_.run([this] { return start_some(); });
      if (result_.interrupted) break;
      branches = std::exchange(reached_, {});
      if (limit != limits.back()) halve();
    }
    read_curves();
    result_.failed =
        static_cast<int>(std::ranges::count(result_.cells, CellState::failed, &Cell::state));
    return std::move(result_);
  }

 private:
  Cell& cell(std::size_t variant, std::size_t seed) {
    return result_.cells[variant * study_.seeds.size() + seed];
  }

  [[nodiscard]] std::string place_of(const std::vector<std::size_t>& members, std::size_t seed,
                                     std::int64_t from) const {
    const std::uint64_t number = study_.seeds[seed];
    if (members.size() == 1)
      return fmt::format("{}/runs/{}/seed-{}", options_.directory,
                         slug(members[0], study_.variants[members[0]].name), number);
    return fmt::format("{}/runs/shared/seed-{}-from-{:08}-{:08x}", options_.directory, number,
                       from + 1,
                       checksum_of(fmt::format("{}", fmt::join(members, ","))) & 0xffffffffU);
  }

  [[nodiscard]] Task task_of(const Segment& segment, const Branch& branch) const {
    Task task{.seed = branch.seed,
              .members = segment.members,
              .from = segment.from,
              .to = segment.to,
              .before = branch.place};
    const bool same = !branch.place.empty() && segment.members == branch.members;
    task.place = same ? branch.place : place_of(segment.members, branch.seed, segment.from);
    const std::size_t variant = segment.members.front();
    task.last = segment.members.size() == 1 && segment.to == study_.steps_of(variant) &&
                segment.to > study_.fork_step;
    const auto words = [&](const std::string& directory) {
      return study_.arguments(variant, study_.seeds[branch.seed], segment.to, directory);
    };
    task.arguments = words(task.run());
    task.digest = checksum_of(
        fmt::format("{}\n{}\n{}", version_text(), study_.ranks, fmt::join(words(""), "\n")));
    return task;
  }

  // Adds the next segments of the branch's members that are still in the study.
  void expand(Branch branch) {
    std::erase_if(branch.members, [&](std::size_t variant) {
      return cell(variant, branch.seed).state != CellState::not_run;
    });
    if (branch.members.empty()) return;
    for (const Segment& segment : next_segments(study_, branch.members, branch.step, limit_))
      pending_.push_back(task_of(segment, branch));
  }

  // Seed by seed, so that a pair that is compared runs within a short time; within a seed in a
  // drawn order, the same after a restart: a machine that slows down affects all variants alike.
  void draw_order() {
    std::ranges::sort(pending_, {}, [&](const Task& task) {
      return std::pair(task.seed,
                       checksum_of(fmt::format("{} {} {}", study_.seeds[task.seed], task.from,
                                               fmt::join(task.members, ","))));
    });
  }

  // Whether anything is left to start.
  bool start_some() {
    draw_order();
    std::vector<studies::StudyRun> wave;
    for (std::size_t left = pending_.size(); left > 0 && jobs_.can_start(); --left) {
      Task task = std::move(pending_.front());
      pending_.pop_front();
      if (is_held(task)) {
        pending_.push_back(std::move(task));
        continue;
      }
      studies::StudyRun run{
          .ranks = study_.ranks, .arguments = task.arguments, .prefix = task.prefix()};
      add_leg(task, run);
      if (is_marked(task)) {
        done(task, true);
      } else if (prepare(task)) {
        run.ended = [this, task](const studies::RunEnd& end) { record(task, end); };
        wave.push_back(std::move(run));
        if (!jobs_.is_array()) jobs_.start(std::exchange(wave, {}));
      }
    }
    if (!wave.empty()) jobs_.start(std::move(wave));
    return !pending_.empty();
  }

  // Whether a job that outlived a killed study still trains here.
  bool is_held(const Task& task) {
    if (!RunOwner::is_held(task.run()).value_or(false)) return false;
    if (waited_for_.insert(task.run()).second)
      fmt::print("{}: a job of an earlier start still runs in {}; waiting for its end\n",
                 describe(task), task.run());
    return true;
  }

  bool prepare(const Task& task) {
    try {
      fs::create_directories(task.place);
      if (!task.before.empty() && task.before != task.place && !fs::exists(task.run()))
        fork_run(task.before + "/run", task.run(), task.from);
      return true;
    } catch (const std::exception& error) {
      failed(task, static_cast<int>(ExitCode::checkpoint), error.what());
      return false;
    }
  }

  void add_leg(const Task& task, const studies::StudyRun& run) {
    for (const std::size_t variant : task.members)
      cell(variant, task.seed)
          .legs.push_back({.from = task.from,
                           .to = task.to,
                           .shared = task.members.size() > 1,
                           .directory = task.run(),
                           .log = run.log(),
                           .command = jobs_.command_of(run)});
  }

  [[nodiscard]] std::string describe(const Task& task) const {
    const std::string whose =
        task.members.size() == 1
            ? study_.variants[task.members[0]].name
            : fmt::format("{} and {} more", study_.variants[task.members[0]].name,
                          task.members.size() - 1);
    return fmt::format("seed {}, steps {} to {}, {}", study_.seeds[task.seed], task.from + 1,
                       task.to, whose);
  }

  void record(const Task& task, const studies::RunEnd& end) {
    for (const std::size_t variant : task.members)
      cell(variant, task.seed).legs.back().log = end.log;
    // The code of an array is the worst of its runs.
    const bool good =
        (end.code == 0 || jobs_.is_array()) && has_reached(task.run(), task.to, task.last);
    if (good) {
      write_file(task.mark(), json{{"digest", fmt::format("{:016x}", task.digest)}}.dump() + "\n",
                 ExitCode::internal);
      done(task, false);
    } else if (end.code == static_cast<int>(ExitCode::requeue)) {
      jobs_.stop("a deadline is there");  // the next run would meet it too
    } else if (!end.stopped) {
      const int code = end.code == 0 ? static_cast<int>(ExitCode::internal) : end.code;
      failed(task, code, studies::last_words(end.log));
    }
  }

  void done(const Task& task, bool was_there) {
    result_.trained_steps += task.to - task.from;
    legs_done_.push_back(task);
    fmt::print("{}{}\n", describe(task), was_there ? ": is there already" : ": done");
    std::fflush(stdout);
    for (const std::size_t variant : task.members) {
      Cell& whose = cell(variant, task.seed);
      whose.steps = task.to;
      if (task.last) whose.state = CellState::done;
    }
    Branch branch{.seed = task.seed, .members = task.members, .place = task.place, .step = task.to};
    if (task.to < limit_) {
      expand(std::move(branch));
    } else {
      reached_.push_back(std::move(branch));
    }
  }

  void failed(const Task& task, int code, const std::string& error) {
    for (const std::size_t variant : task.members) {
      Cell& whose = cell(variant, task.seed);
      whose.state = CellState::failed;
      whose.code = code;
      whose.error = error;
    }
    fmt::print("{}: failed with code {}: {}; its log: {}\n", describe(task), code, error,
               cell(task.members.front(), task.seed).legs.back().log);
    std::fflush(stdout);
  }

  [[nodiscard]] Curve curve_of(const Cell& whose) const {
    if (whose.legs.empty()) return {};
    try {
      return read_curve(whose.legs.back().directory + "/metrics.jsonl", study_.traits.item_name);
    } catch (const Error&) {
      return {};
    }
  }

  // Stops the worst of the unfinished variants.
  void halve() {
    std::vector<Standing> standings;
    for (std::size_t variant = 1; variant < study_.variants.size(); ++variant) {
      if (study_.steps_of(variant) <= limit_) continue;
      Standing standing{.variant = variant};
      bool runs = false;
      for (std::size_t seed = 0; seed < study_.seeds.size(); ++seed) {
        const auto state = cell(variant, seed).state;
        if (state == CellState::stopped) break;
        runs |= state == CellState::not_run;
        standing.differences.push_back(difference_at_rung(variant, seed));
      }
      if (runs) standings.push_back(std::move(standing));
    }
    const Judgement judgement = judge(study_, limit_, standings);
    for (const std::size_t variant : judgement.stopped)
      for (std::size_t seed = 0; seed < study_.seeds.size(); ++seed) {
        Cell& whose = cell(variant, seed);
        if (whose.state == CellState::not_run) whose.state = CellState::stopped;
      }
    result_.decisions.push_back(judgement.text);
    fmt::print("{}\n", judgement.text);
  }

  std::optional<double> difference_at_rung(std::size_t variant, std::size_t seed) {
    if (cell(variant, seed).state == CellState::failed) return {};
    const auto rung = static_cast<double>(limit_);
    const auto own = metric_at(study_, curve_of(cell(variant, seed)), Axis::steps, rung);
    const auto base = metric_at(study_, curve_of(cell(0, seed)), Axis::steps, rung);
    if (!own || !base || !std::isfinite(*own - *base)) return {};
    return *own - *base;
  }

  void read_curves() {
    for (Cell& whose : result_.cells) {
      whose.curve = curve_of(whose);
      whose.curve.cut(whose.state == CellState::done ? limit_ : whose.steps);
    }
    for (const Task& task : legs_done_) {
      Curve curve = cell(task.members.front(), task.seed).curve;
      curve.cut(task.to);
      const double end = curve.end().seconds;
      curve.cut(task.from);
      result_.trained_seconds += end - curve.end().seconds;
    }
  }

  const Study& study_;
  const studies::RunnerOptions& options_;
  studies::StudyJobs jobs_;
  AblationResult result_;
  std::int64_t limit_ = 0;
  std::deque<Task> pending_;
  std::vector<Branch> reached_;
  std::vector<Task> legs_done_;
  std::set<std::string> waited_for_;
};

}  // namespace

std::string_view name_of(CellState state) {
  constexpr std::string_view names[] = {"not run", "done", "stopped", "failed"};
  return names[static_cast<std::size_t>(state)];
}

AblationResult run_ablation(const Study& study, const studies::Launcher& launcher,
                            const studies::RunnerOptions& options) {
  const studies::StudyDirectory claimed(options.directory, study.identity, options.resume);
  return Ablation(study, launcher, options).run();
}

}  // namespace trireme::ablate
