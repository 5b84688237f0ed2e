// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/journal.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <span>

#include "launch/campaign/run_progress.h"
#include "launch/observe/report/html.h"
#include "launch/observe/report/table.h"
#include "runtime/base/atomic_file.h"
#include "runtime/telemetry/console.h"

namespace trireme::campaign {
namespace {

constexpr std::size_t attempts_shown = 20;  // on a terminal

std::string date_text(double seconds) {
  if (seconds <= 0) return "-";
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", utc);
}

std::string duration_text(double seconds) {
  return format_duration(std::max(0.0, seconds));
}

std::string headline(const CampaignState& state, const std::string& directory) {
  const RunProgress progress = read_progress(directory + "/run", 0);
  return fmt::format("campaign {}: {}{}{}; step {} of {}, newest checkpoint {}", state.id,
                     name_of(state.outcome), state.text.empty() ? "" : ": ", state.text,
                     progress.step, state.steps, progress.checkpoint);
}

// One job: number, state, place.
std::vector<std::string> cells_of(const Attempt& attempt, double now) {
  const bool ended = attempt.phase == Attempt::Phase::ended;
  std::string what(name_of(attempt.phase));
  if (ended) what = attempt.started > 0 ? fmt::format("code {}", attempt.code) : "never ran";
  return {
      fmt::format("{}", attempt.number),
      attempt.job.empty() ? attempt.name : attempt.job,
      what,
      fmt::format("{}", attempt.nodes),
      fmt::format("{}", attempt.ranks),
      attempt.layout,
      date_text(attempt.started),
      attempt.started > 0 ? duration_text((ended ? attempt.ended : now) - attempt.started) : "-",
      fmt::format("{}", attempt.from_step),
      ended ? fmt::format("{}", attempt.to_step) : "",
      attempt.step_seconds > 0 ? fmt::format("{:.1f}", 1e3 * attempt.step_seconds) : "",
      attempt.place,
      attempt.reason};
}
report::Table table_of(std::span<const Attempt> attempts, double now) {
  using Kind = report::Column::Kind;
  report::Table table({{"#"},
                       {"job", Kind::text},
                       {"state", Kind::text},
                       {"nodes"},
                       {"ranks"},
                       {"layout", Kind::text},
                       {"started", Kind::text},
                       {"time"},
                       {"from"},
                       {"to"},
                       {"step, ms"},
                       {"place", Kind::text},
                       {"end", Kind::long_text}});
  for (const Attempt& attempt : attempts)
    table.add(cells_of(attempt, now));
  return table;
}

std::string excluded_text(const CampaignState& state, double now) {
  std::vector<std::string> hosts;
  for (const Exclusion& each : state.excluded) {
    if (each.until > now)
      hosts.push_back(
          fmt::format("{} until {} ({})", each.host, date_text(each.until), each.reason));
  }
  return hosts.empty() ? "" : fmt::format("left out: {}\n", fmt::join(hosts, "; "));
}

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void Journal::note(const std::string& text) {
  const std::string line = fmt::format("{} {}\n", date_text(wall_clock()), text);
  fmt::print("{}", line);
  std::fflush(stdout);
  try {
    const FileDescriptor file = OutputDirectory(directory_, ExitCode::internal)
                                    .open("campaign.log", O_WRONLY | O_CREAT | O_APPEND);
    write_fully(file, directory_ + "/campaign.log", std::as_bytes(std::span(line)),
                ExitCode::internal);
  } catch (const Error&) {
    return;  // already on the terminal
  }
}

void Journal::show(const CampaignState& state, double now) {
  std::string page = status_html(state, directory_, now);
  if (page == shown_) return;
  try {
    write_file(directory_ + "/status.html", page, ExitCode::internal);
    shown_ = std::move(page);
  } catch (const Error&) {
    shown_.clear();  // the next poll retries
  }
}

std::string goodput_text(const CampaignState& state, double now) {
  // The useful part of a running job is known only when the next one starts.
  const bool going =
      !state.attempts.empty() && state.attempts.back().phase != Attempt::Phase::ended;
  const double open = going ? state.attempts.back().node_hours(now) : 0;
  const double used = state.node_hours(now) - open, useful = state.useful_node_hours();
  const std::string of_running =
      open > 0 ? fmt::format("{:.4f} node-hours of the running job do not count yet", open) : "";
  if (used <= 0)
    return "goodput is unknown until the first job has ended" +
           (open > 0 ? "; " + of_running : std::string());
  double until = state.ended > 0 ? state.ended : now;
  double stepping = 0;
  for (const Attempt& attempt : state.attempts) {
    if (attempt.phase != Attempt::Phase::ended) {
      if (attempt.started > 0) until = attempt.started;
      continue;
    }
    stepping += attempt.nodes > 0
                    ? 3600 * attempt.useful_node_hours() / static_cast<double>(attempt.nodes)
                    : 0;
  }
  const double wall = std::max(1e-9, until - state.created);
  return fmt::format(
      "goodput {:.1f} %: {:.4f} of {:.4f} node-hours were steps that count; {:.1f} % of {} since "
      "the campaign began{}",
      100 * useful / used, useful, used, 100 * stepping / wall, duration_text(wall),
      open > 0 ? "; " + of_running : "");
}

std::string status_text(const CampaignState& state, const std::string& directory, double now) {
  std::string text = headline(state, directory) + "\n";
  const std::span<const Attempt> all(state.attempts);
  const std::size_t shown = std::min(all.size(), attempts_shown);
  if (shown < all.size()) text += fmt::format("({} jobs before)\n", all.size() - shown);
  text += table_of(all.last(shown), now).text();
  text += excluded_text(state, now);
  if (!state.weights.empty()) text += "final " + state.weights + "\n";
  return text + goodput_text(state, now) + "\n";
}

std::string status_html(const CampaignState& state, const std::string& directory, double now) {
  using report::escaped;
  std::string body;
  for (const std::string& line :
       {headline(state, directory), goodput_text(state, now), excluded_text(state, now)})
    if (!line.empty()) body += fmt::format("<p>{}</p>\n", escaped(line));
  if (!state.weights.empty()) body += fmt::format("<p>final {}</p>\n", escaped(state.weights));
  const std::vector<Attempt> newest_first(state.attempts.rbegin(), state.attempts.rend());
  body += table_of(newest_first, now).html("Jobs");
  body += fmt::format("<p class=\"soft\">{}, as of {}; read again every 30 s</p>\n",
                      escaped(directory), date_text(now));
  return report::text_page("Campaign " + state.id, body, 30);
}

}  // namespace trireme::campaign
