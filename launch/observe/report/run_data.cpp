// SPDX-License-Identifier: Apache-2.0
#include "launch/observe/report/run_data.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "launch/engine/options.h"
#include "launch/plan/layout_plan.h"
#include "launch/run/run_files.h"
#include "models/config.h"
#include "runtime/base/environment.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/telemetry/run_directory.h"

namespace trireme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_text = std::uint64_t{4} << 20;

// Calls `read`; an exception becomes a remark.
template <typename Read>
void tolerate(RunData& run, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    run.remarks.emplace_back(error.what());
  } catch (const std::exception& error) {
    run.remarks.push_back(fmt::format("{}: {}", run.directory, error.what()));
  }
}

// Opening the directory is the only reliable test of access.
void require_directory(const std::string& directory) {
  const FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) return;
  fail(ExitCode::config, "{}: {}; give the directory of a run (run.directory of its config)",
       directory, std::strerror(errno));
}

std::string text_file(RunData& run, const std::string& path, std::string_view lacks) {
  std::string text;
  tolerate(run, [&] {
    if (auto found = read_file_if_exists(path, largest_text, ExitCode::data))
      text = std::move(*found);
    else
      run.remarks.push_back(fmt::format("{} does not exist: {}", path, lacks));
  });
  return text;
}

void read_environment(RunData& run) {
  auto file = runs::parse_environment(run.environment);
  if (!file && !run.environment.empty())
    run.remarks.push_back(fmt::format("{}/environment.json is not a JSON object", run.directory));
  if (!file) return;
  run.start = std::move(*file);
  run.facts.host_cores = run.start.cores;
  run.hosts = run.start.hosts;
}

// The host with the most ranks has the fewest cores per rank.
CoreCrowd crowd_of(const RunData& run) {
  std::map<std::string, std::vector<int>> by_host;
  for (std::size_t rank = 0; rank < run.hosts.size(); ++rank)
    by_host[run.hosts[rank]].push_back(static_cast<int>(rank));
  CoreCrowd crowd{.host = {}, .ranks = {}, .cores = std::max(run.facts.host_cores, 1)};
  for (const auto& [host, ranks] : by_host) {
    if (ranks.size() > crowd.ranks.size()) crowd.host = host, crowd.ranks = ranks;
  }
  return crowd;
}

void read_settings(RunData& run) {
  if (run.config.empty()) return;
  tolerate(run, [&] {
    const Config config = parse_config(run.config, RunDirectory::config_in(run.directory), {});
    run.planned_steps = config.train.steps;
    run.family = config.model.family;
    run.device = name_of(config.device.type);
    run.facts = run_facts(config, crowd_of(run));
    run.facts.hosts = static_cast<int>(std::set(run.hosts.begin(), run.hosts.end()).size());
    run.settings = values_by_key(config);
    if (const std::string routing = routing_text(config); !routing.empty())
      run.remarks.push_back(routing + " (model.router_balanced): its losses say little");
    tolerate(run, [&] {
      // A run's own config is resolved; a file put there by hand may not be.
      const ParallelConfig& parallel = config.parallel;
      const std::int64_t ranks = parallel.ranks();
      const auto given = static_cast<int>(ranks > 0 ? ranks : std::max(run.start.ranks, 1));
      Environment place = planned_environment(given, config);
      place.steps_done = config.train.steps;
      run.figures = model_figures(resolve_config(config, place));
      add_measured_memory(run.figures, run.directory);
    });
  });
}

// Percent of the devices' peak, if the config names a hardware description.
void add_utilisation(RunData& run) {
  if (run.figures.peak_flops <= 0 || run.figures.flops_per_item <= 0) return;
  Buckets& buckets = run.metrics.buckets;
  buckets.derive(run.metrics.items + "_per_s", "mfu",
                 run.figures.flops_per_item / run.figures.peak_flops);
}

void read_checkpoints(RunData& run) {
  tolerate(run, [&] {
    run.checkpoints = runs::list_stored(run.directory);
    for (const runs::StoredCheckpoint& one : run.checkpoints)
      if (!one.whole)
        run.remarks.push_back(
            fmt::format("{} has no {}: it is incomplete", one.path, manifest_name));
  });
}

void judge_state(RunData& run) {
  const MetricsHistory& all = run.metrics;
  const std::size_t times = all.buckets.find("step_ms");
  const Cell* const last =
      all.buckets.all().empty() ? nullptr : all.buckets.all().back().cell(times);
  runs::RunSigns signs{.directory = run.directory,
                       .has_metrics = run.has_metrics,
                       .age = run.file_age_seconds,
                       .step = all.last_step,
                       .steps = run.planned_steps,
                       .came_to_its_end = run.ranks.fold.ended(),
                       .reached = run.ranks.fold.reached(),
                       .on_this_host = !run.hosts.empty() && run.hosts.front() == host_name()};
  if (last != nullptr) signs.step_ms = last->mean();
  if (!all.evaluations.empty()) signs.evaluation_seconds = all.evaluations.back().seconds;
  run.standing = runs::judge(signs);
}

void remark_on_metrics(RunData& run) {
  const MetricsHistory& all = run.metrics;
  const auto say = [&](std::string text) { run.remarks.push_back(std::move(text)); };
  if (all.broken > 0)
    say(
        fmt::format("metrics.jsonl: {} of {} lines cannot be read, the first is line {}; they are "
                    "left out",
                    all.broken, all.lines, all.first_broken));
  if (all.too_long > 0) say(fmt::format("metrics.jsonl: {} lines are too long", all.too_long));
  if (all.torn_end)
    say("metrics.jsonl: its last line is incomplete: a run is writing it, or was killed");
  if (all.of_no_kind > 0)
    say(fmt::format(
        "metrics.jsonl: {} lines are of a kind unknown to this version; they are left out",
        all.of_no_kind));
  if (all.steps == 0) say("metrics.jsonl has no step yet");
  if (all.missing_steps > 0)
    say(fmt::format("metrics.jsonl: {} steps up to step {} have no line", all.missing_steps,
                    all.highest_step));
  if (all.went_back.count > 0) {
    say(
        fmt::format("metrics.jsonl: its steps go back {} times, first {}: two jobs wrote to it, or "
                    "files were joined; {} steps appear twice, and the later ones count",
                    all.went_back.count, all.went_back.first.front().text, all.repeated_steps));
  }
  if (all.clock_jumps > 0)
    say(
        fmt::format("metrics.jsonl: the clock was set back {} times; times are those that the "
                    "steps measured",
                    all.clock_jumps));
  if (run.planned_steps > 0 && all.highest_step > run.planned_steps)
    say(
        fmt::format("metrics.jsonl has step {}, but config.yaml has train.steps = {}: they are "
                    "from different starts",
                    all.highest_step, run.planned_steps));
}

void remark_on_ranks(RunData& run) {
  const RankHistory& ranks = run.ranks;
  if (ranks.broken > 0)
    run.remarks.push_back(
        fmt::format("ranks.jsonl: {} lines cannot be read, the first is line {}; they are left out",
                    ranks.broken, ranks.first_broken));
  const int expected = ranks.starts.empty() ? run.start.ranks : ranks.starts.back().facts.ranks;
  if (ranks.ranks_of_last_start > 0 && ranks.ranks_of_last_start < expected)
    run.remarks.push_back(
        fmt::format("ranks.jsonl has {} of {} ranks", ranks.ranks_of_last_start, expected));
}

// True also for a broken link and an unreadable file, which get a remark.
bool is_there(const std::string& path) {
  std::error_code unknown;
  return fs::symlink_status(path, unknown).type() != fs::file_type::not_found;
}

void read_metrics_file(RunData& run) {
  const std::string path = run.directory + "/metrics.jsonl";
  if (!is_there(path)) {
    run.remarks.push_back(path + " does not exist: no step was reported");
    return;
  }
  tolerate(run, [&] {
    run.metrics = read_metrics(path, run.ranks.starts);
    run.has_metrics = true;
    struct stat file {};
    if (::stat(path.c_str(), &file) != 0) return;
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    run.file_age_seconds = std::max(0.0, static_cast<double>(now - file.st_mtim.tv_sec));
  });
}

void read_ranks_file(RunData& run) {
  const std::string path = run.directory + "/ranks.jsonl";
  if (!is_there(path)) {
    run.remarks.push_back(path + " does not exist: nothing is known about single ranks");
    return;
  }
  tolerate(run, [&] { run.ranks = read_ranks(path); });
}

}  // namespace

RunData read_run(const std::string& directory) {
  require_directory(directory);
  RunData run{.directory = directory};
  std::error_code unknown;
  const fs::path whole = fs::canonical(directory, unknown);
  run.name = unknown ? directory : whole.filename().string();
  run.environment = text_file(run, directory + "/environment.json",
                              "host, version and command line are not known");
  run.config = text_file(run, RunDirectory::config_in(directory), "settings are not known");
  read_ranks_file(run);
  read_metrics_file(run);
  if (run.config.empty() && run.environment.empty() && !run.has_metrics) {
    fail(ExitCode::data, "{}: holds no run that can be read: {}; give a run.directory", directory,
         fmt::join(run.remarks, "; "));
  }
  read_environment(run);
  read_settings(run);
  add_utilisation(run);
  if (!run.ranks.starts.empty() && !run.ranks.starts.back().hosts.empty())
    run.hosts = run.ranks.starts.back().hosts;
  if (run.has_metrics) remark_on_metrics(run);
  remark_on_ranks(run);
  read_checkpoints(run);
  judge_state(run);
  return run;
}

RunSummary summary_of(const RunData& run) {
  RunSummary summary{.totals = run.metrics.totals,
                     .wall_seconds = run.metrics.running_seconds,
                     .evaluation_seconds = run.metrics.evaluation_seconds,
                     .hosts = run.hosts,
                     .divergence = run.metrics.divergence};
  // metrics.jsonl does not tell which other parts contain core_wait_ms, so it stays in them.
  summary.totals.times[TimePart::core_wait] = 0;
  summary.wall_seconds = std::max(
      summary.wall_seconds, 1e-3 * summary.totals[TimePart::step] + summary.evaluation_seconds);
  return summary;
}

RunSummary times_of(const RunData& run) {
  if (run.ranks.fold.steps() == 0) return summary_of(run);
  RunSummary summary = run.ranks.fold.whole();
  summary.divergence = run.metrics.divergence;
  return summary;
}

std::vector<RunData> read_runs(std::span<const std::string> places, std::optional<Error>& unread) {
  constexpr std::size_t most_runs = 200;  // more are refused
  std::vector<std::string> directories;
  for (const std::string& place : places)
    for (std::string& directory : runs::runs_at(place))
      if (std::ranges::find(directories, directory) == directories.end())
        directories.push_back(std::move(directory));
  if (directories.empty())
    fail(ExitCode::config, "{}: nothing matches; give directories of runs or studies",
         fmt::join(places, ", "));
  if (directories.size() > most_runs)
    fail(ExitCode::config, "{}: there are {} runs, but a report compares at most {}; name fewer",
         fmt::join(places, ", "), directories.size(), most_runs);
  std::vector<RunData> runs;
  std::vector<std::string> read;
  std::string problems;
  ExitCode code = ExitCode::ok;
  for (const std::string& directory : directories) {
    try {
      runs.push_back(read_run(directory));
      read.push_back(directory);
    } catch (const Error& error) {
      if (problems.empty()) code = error.code();
      problems += (problems.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (!problems.empty()) unread = Error(code, problems);
  if (runs.empty()) throw Error(*unread);
  const std::vector<std::string> names = runs::distinguishing_names(read);
  for (std::size_t i = 0; i < runs.size(); ++i)
    runs[i].name = names[i];
  return runs;
}

}  // namespace trireme::report
