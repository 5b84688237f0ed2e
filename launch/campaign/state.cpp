// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/state.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/base/atomic_file.h"
#include "runtime/base/json.h"

namespace trireme::campaign {
namespace {

using nlohmann::json;

constexpr int format_version = 1;
constexpr std::uint64_t longest_state = std::uint64_t{256} << 20U;

constexpr std::array<std::string_view, 4> phase_names{"intended", "submitted", "running", "ended"};
constexpr std::array<std::string_view, 7> outcome_names{
    "going", "done", "failed", "given up", "stopped", "out of budget", "past its end"};

template <typename Enum, std::size_t N>
Enum named(const std::array<std::string_view, N>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) throw json::other_error::create(501, "unknown word " + name, nullptr);
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

// nlohmann finds it by argument-dependent lookup.
static void to_json(json& text, Attempt::Phase phase) {
  text = name_of(phase);
}
static void from_json(const json& text, Attempt::Phase& phase) {
  phase = named<Attempt::Phase>(phase_names, text.get<std::string>());
}
static void to_json(json& text, CampaignState::Outcome outcome) {
  text = name_of(outcome);
}
static void from_json(const json& text, CampaignState::Outcome& outcome) {
  outcome = named<CampaignState::Outcome>(outcome_names, text.get<std::string>());
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Attempt, number, name, phase, job, place, nodes, ranks, layout,
                                   settings, predicted_step, hosts, submitted, started, ended,
                                   asked_to_stop, from_step, to_step, step_seconds, first_step,
                                   code, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Exclusion, host, reason, until)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CampaignState, id, created, ended, outcome, text, weights, steps,
                                   counted_from, attempts, excluded)

std::string_view name_of(CampaignState::Outcome outcome) {
  return outcome_names[static_cast<std::size_t>(outcome)];
}

std::string_view name_of(Attempt::Phase phase) {
  return phase_names[static_cast<std::size_t>(phase)];
}

double Attempt::node_hours(double now) const {
  if (started == 0) return 0;
  const double until = phase == Phase::ended ? ended : now;
  return std::max(0.0, until - started) * static_cast<double>(nodes) / 3600;
}

double Attempt::useful_node_hours() const {
  const auto kept = static_cast<double>(std::max<std::int64_t>(0, to_step - from_step));
  return kept * step_seconds * static_cast<double>(nodes) / 3600;
}

Attempt* CampaignState::current() {
  if (attempts.empty() || attempts.back().phase == Attempt::Phase::ended) return nullptr;
  return &attempts.back();
}

double CampaignState::node_hours(double now) const {
  double sum = 0;
  for (const Attempt& attempt : attempts)
    sum += attempt.node_hours(now);
  return sum;
}

double CampaignState::useful_node_hours() const {
  double sum = 0;
  for (const Attempt& attempt : attempts)
    sum += attempt.useful_node_hours();
  return sum;
}

std::int64_t CampaignState::without_progress() const {
  std::int64_t count = 0;
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    if (attempt->number < counted_from) break;
    if (attempt->phase != Attempt::Phase::ended) continue;
    // An attempt that never ran lost nothing: its offer was gone.
    if (attempt->to_step > attempt->from_step) break;
    if (attempt->started > 0) ++count;
  }
  return count;
}

std::vector<std::string> CampaignState::excluded_hosts(double now) const {
  std::vector<std::string> hosts;
  for (const Exclusion& each : excluded) {
    if (each.until > now) hosts.push_back(each.host);
  }
  return hosts;
}

void CampaignState::exclude(const std::string& host, const std::string& reason, double until) {
  std::erase_if(excluded, [&](const Exclusion& each) { return each.host == host; });
  excluded.push_back({host, reason, until});
}

std::string state_file_in(const std::string& directory) {
  return directory + "/campaign.json";
}

std::optional<CampaignState> load_state(const std::string& directory) {
  const std::string path = state_file_in(directory);
  const auto text = read_file_if_exists(path, longest_state, ExitCode::config);
  if (!text) return {};
  try {
    const json state = parse_json(*text);
    if (state.at("version") != format_version) {
      fail(ExitCode::config,
           "{}: is of version {}, but this program reads {}; use the program that wrote it", path,
           state.at("version").dump(), format_version);
    }
    return state.get<CampaignState>();
  } catch (const json::exception& error) {
    fail(ExitCode::config,
         "{}: is not the state of a campaign ({}); restore it, or choose another directory", path,
         error.what());
  }
}

void save_state(const std::string& directory, const CampaignState& state) {
  json text = state;
  text["version"] = format_version;
  write_file(state_file_in(directory),
             text.dump(1, ' ', false, json::error_handler_t::replace) + "\n", ExitCode::internal);
}

}  // namespace trireme::campaign
