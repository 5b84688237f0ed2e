// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "launch/engine/options.h"
#include "launch/observe/top/run_view.h"
#include "launch/run/run_files.h"
#include "models/config.h"
#include "runtime/base/environment.h"
#include "runtime/base/json.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/telemetry/bottleneck/rank_lines.h"
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/time_left.h"

namespace trireme::top {
namespace {

namespace fs = std::filesystem;
using RunJson = nlohmann::json;
using Kind = runs::MetricsLine::Kind;

constexpr std::size_t mean_steps = 50, most_warnings = 5, most_slow_ranks = 3;
constexpr std::uint64_t largest_text = 4 << 20;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Calls `read` with the file's text if it changed since `written`.
template <typename Read>
void when_newer(const std::string& path, double& written, Read&& read) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return;
  const double time = static_cast<double>(status.st_mtim.tv_sec) +
                      1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  if (time == written) return;
  written = time;
  try {
    if (const auto text = read_file_if_exists(path, largest_text, ExitCode::config)) read(*text);
  } catch (const std::exception&) {  // of another version, torn, or foreign: shown without
  }
}

RankRows rows_of(const RankWindow& window, const RunFacts& facts) {
  RankRows rows{
      .first = window.first, .last = window.last, .ranks = static_cast<int>(window.ranks.size())};
  rows.checkpoint_seconds = checkpoint_seconds(window.totals, window.last, facts);
  const auto steps = static_cast<double>(window.last - window.first + 1);
  for (const Times& rank : window.ranks) {
    rows.period_ms += rank[TimePart::period] / steps / static_cast<double>(window.ranks.size());
    rows.slowest.push_back({.rank = static_cast<int>(rows.slowest.size()),
                            .late_ms = rank[TimePart::late] / steps,
                            .late_share = rank[TimePart::late_steps] / steps});
  }
  std::ranges::stable_sort(rows.slowest, std::ranges::greater(), &SlowRankRow::late_ms);
  if (rows.slowest.size() > most_slow_ranks) rows.slowest.resize(most_slow_ranks);
  return rows;
}

std::string warning_in(const runs::MetricsLine& line) {
  if (line.kind() == Kind::failed_save)
    return fmt::format("checkpoint failed ({} in a row): {}", line.text("failed_saves"),
                       line.text("checkpoint_failed"));
  if (line.kind() == Kind::skipped)
    return fmt::format("batch skipped: {}, {} standard deviations above the mean",
                       line.text("skipped"), line.text("deviations"));
  const std::string said = line.text("text");
  return said.empty() ? line.text("warning") : said;
}

}  // namespace

RunFollower::RunFollower(std::string directory)
    : metrics_(directory + "/metrics.jsonl"), ranks_(directory + "/ranks.jsonl", 64 << 10) {
  view_.directory = std::move(directory);
}

double RunView::mean(std::string_view key) const {
  double sum = 0;
  int count = 0;
  for (const runs::MetricsLine& step : recent) {
    const double value = step.number(key);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++count;
  }
  return count > 0 ? sum / count : runs::MetricsLine::unknown;
}

double RunView::items_per_second() const {
  return recent.empty() ? runs::MetricsLine::unknown
                        : mean(fmt::format("{}_per_s", recent.back().items()));
}

double RunView::evaluation_seconds() const {
  return evaluation ? 1e-3 * evaluation->number("evaluation_ms", 0) : 0.0;
}

double RunView::checkpoint_age() const {
  return std::max(0.0, now_seconds() - standing.checkpoint->written);
}

double RunView::share_done() const {
  return steps > 0 ? static_cast<double>(step()) / static_cast<double>(steps) : 0.0;
}

double RunView::time_left() const {
  if (steps == 0 || recent.empty()) return runs::MetricsLine::unknown;
  return seconds_left(step(), steps, facts,
                      {.step = 1e-3 * mean("step_ms"),
                       .evaluation = evaluation_seconds(),
                       .checkpoint = ranks.checkpoint_seconds});
}

void RunFollower::refresh() {
  view_.problem.clear();
  read_settings();
  metrics_.poll(
      [&] {
        view_.recent.clear();
        view_.warnings.clear();
        view_.warning_count = 0;
        view_.evaluation.reset();
        other_lines_ = 0;
        view_.losses.clear();
        if (metrics_.begins_within())
          view_.losses.sample(metrics_.path(), metrics_.size(), std::uint64_t{128} << 10);
      },
      [&](std::string_view line) { take_metrics_line(line); });
  if (!metrics_.problem().empty())
    view_.problem = fmt::format("{}: {}", metrics_.path(), metrics_.problem());
  else if (view_.recent.empty() && other_lines_ > 0)
    view_.problem = fmt::format("{}: {} lines, but no step that this version knows",
                                metrics_.path(), other_lines_);
  ranks_.poll(
      [&] {
        view_.ranks = {};
        view_.came_to_its_end = false;
        view_.reached.clear();
      },
      [&](std::string_view line) { take_rank_line(line); });
  view_.ranks_problem = ranks_.problem();
  if (!ranks_.exists()) {
    view_.ranks_problem = "no ranks.jsonl in this run";
  } else if (view_.ranks_problem.empty() && view_.ranks.ranks == 0) {
    view_.ranks_problem = "no window of steps yet";
  }
  read_environment();
  read_planned_memory();
  read_owner();
  find_save_in_progress();
  judge();
}

void RunFollower::take_metrics_line(std::string_view text) {
  const Kind kind = line_.parse(text);
  if (kind == Kind::broken || kind == Kind::other) {
    ++other_lines_;
  } else if (kind == Kind::step) {
    while (!view_.recent.empty() && view_.recent.back().step() >= line_.step())
      view_.recent.pop_back();
    view_.recent.push_back(line_);
    if (view_.recent.size() > mean_steps) view_.recent.pop_front();
    view_.losses.add(line_.step(), line_.number("loss"));
  } else if (kind == Kind::evaluation) {
    view_.evaluation = line_;
  } else {
    view_.warnings.push_back({line_.step(), warning_in(line_)});
    ++view_.warning_count;
    if (view_.warnings.size() > most_warnings) view_.warnings.pop_front();
  }
}

void RunFollower::take_rank_line(std::string_view text) {
  const std::optional<RankLine> line = parse_rank_line(text);
  if (!line) return;
  const auto* const end = std::get_if<RunEnding>(&*line);
  view_.came_to_its_end = end != nullptr;
  view_.reached = end != nullptr ? end->reached : "";
  // A restart discards the counts of remote ranks.
  if (std::holds_alternative<RunStart>(*line)) view_.ranks = {};
  if (const auto* const window = std::get_if<RankWindow>(&*line))
    view_.ranks = rows_of(*window, view_.facts);
}

void RunFollower::read_settings() {
  const std::string path = RunDirectory::config_in(view_.directory);
  when_newer(path, config_written_, [&](const std::string& text) {
    const Config config = parse_config(text, path, {});
    view_.steps = config.train.steps;
    view_.facts = run_facts(config, {});
    view_.summary = fmt::format("{}, {}, {}", config.model.family, name_of(config.precision),
                                mesh_text(config.parallel));
  });
}

void RunFollower::read_environment() {
  when_newer(view_.directory + "/environment.json", environment_written_,
             [&](const std::string& text) {
               const auto file = runs::parse_environment(text);
               view_.hosts = file ? file->hosts : std::vector<std::string>();
               has_planned_ = false;
             });
}

// A rank's planned memory, from the log of the start: parameters, gradients, optimizer,
// activations.
void RunFollower::read_planned_memory() {
  if (has_planned_) return;
  const FileDescriptor file(
      ::open(RunDirectory::log_in(view_.directory).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  constexpr std::string_view head = "buffers per rank at most: ";
  const std::string text = bytes_at(file, 0, 64 << 10);
  const std::size_t begin = text.find(head);
  if (begin == std::string::npos) return;
  const std::string line = text.substr(begin + head.size(), text.find('\n', begin) - begin);
  double sum = 0;
  for (std::size_t unit = 0; (unit = line.find(" MiB", unit)) != std::string::npos; ++unit)
    sum += std::strtod(line.c_str() + line.rfind(' ', unit - 1), nullptr);
  view_.planned_mib = sum;
  has_planned_ = true;
}

void RunFollower::read_owner() {
  view_.on_this_host = false;
  view_.resident_mib = view_.peak_mib = 0;
  try {
    const auto notes =
        read_file_if_exists(view_.directory + "/owner.json", largest_text, ExitCode::config);
    const RunJson owner = json_or_discarded(notes.value_or(""));
    view_.on_this_host = owner.is_object() && owner.value("host", "") == host_name();
    if (!view_.on_this_host) return;
    const auto status = read_file_if_exists(
        fmt::format("/proc/{}/status", owner.value("process", 0)), largest_text, ExitCode::config);
    // The number may belong to another program by now.
    if (!status || status->find("Name:\ttrireme") == std::string::npos) return;
    const auto mib = [&](std::string_view key) {
      const std::size_t found = status->find(key);
      return found == std::string::npos
                 ? 0.0
                 : std::strtod(status->c_str() + found + key.size(), nullptr) / 1024;
    };
    view_.resident_mib = mib("VmRSS:");
    view_.peak_mib = mib("VmHWM:");
  } catch (const std::exception&) {  // unreadable: not shown
  }
}

void RunFollower::find_save_in_progress() {
  view_.save_in_progress.clear();
  std::error_code error;
  for (fs::directory_iterator entry(RunDirectory::checkpoints_in(view_.directory), error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_leftover(name) && name.ends_with(partial_suffix)) view_.save_in_progress = name;
  }
}

void RunFollower::judge() {
  const double age = metrics_.exists() ? std::max(0.0, now_seconds() - metrics_.written()) : 0.0;
  view_.standing = runs::judge({.directory = view_.directory,
                                .has_metrics = metrics_.exists(),
                                .age = age,
                                .step = view_.step(),
                                .steps = view_.steps,
                                .came_to_its_end = view_.came_to_its_end,
                                .reached = view_.reached,
                                .step_ms = view_.mean("step_ms"),
                                .evaluation_seconds = view_.evaluation_seconds(),
                                .on_this_host = view_.on_this_host});
}

}  // namespace trireme::top
