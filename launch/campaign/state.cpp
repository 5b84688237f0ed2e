// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/state.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "runtime/base/atomic_file.h"
#include "runtime/base/json.h"

namespace trireme::campaign {
namespace {

using json = nlohmann::ordered_json;

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

json json_of(const Attempt& attempt) {
  return {{"number", attempt.number},
          {"name", attempt.name},
          {"phase", name_of(attempt.phase)},
          {"job", attempt.job},
          {"place", attempt.place},
          {"nodes", attempt.nodes},
          {"ranks", attempt.ranks},
          {"layout", attempt.layout},
          {"settings", attempt.settings},
          {"predicted_step", attempt.predicted_step},
          {"hosts", attempt.hosts},
          {"submitted", attempt.submitted},
          {"started", attempt.started},
          {"ended", attempt.ended},
          {"asked_to_stop", attempt.asked_to_stop},
          {"from_step", attempt.from_step},
          {"to_step", attempt.to_step},
          {"step_seconds", attempt.step_seconds},
          {"first_step", attempt.first_step},
          {"code", attempt.code},
          {"reason", attempt.reason}};
}

Attempt attempt_of(const json& text) {
  Attempt attempt;
  text.at("number").get_to(attempt.number);
  text.at("name").get_to(attempt.name);
  attempt.phase = named<Attempt::Phase>(phase_names, text.at("phase").get<std::string>());
  text.at("job").get_to(attempt.job);
  text.at("place").get_to(attempt.place);
  text.at("nodes").get_to(attempt.nodes);
  text.at("ranks").get_to(attempt.ranks);
  text.at("layout").get_to(attempt.layout);
  text.at("settings").get_to(attempt.settings);
  text.at("predicted_step").get_to(attempt.predicted_step);
  text.at("hosts").get_to(attempt.hosts);
  text.at("submitted").get_to(attempt.submitted);
  text.at("started").get_to(attempt.started);
  text.at("ended").get_to(attempt.ended);
  text.at("asked_to_stop").get_to(attempt.asked_to_stop);
  text.at("from_step").get_to(attempt.from_step);
  text.at("to_step").get_to(attempt.to_step);
  text.at("step_seconds").get_to(attempt.step_seconds);
  text.at("first_step").get_to(attempt.first_step);
  text.at("code").get_to(attempt.code);
  text.at("reason").get_to(attempt.reason);
  return attempt;
}

CampaignState state_of(const json& text) {
  CampaignState state;
  text.at("id").get_to(state.id);
  text.at("created").get_to(state.created);
  text.at("ended").get_to(state.ended);
  state.outcome =
      named<CampaignState::Outcome>(outcome_names, text.at("outcome").get<std::string>());
  text.at("text").get_to(state.text);
  text.at("weights").get_to(state.weights);
  text.at("steps").get_to(state.steps);
  text.at("counted_from").get_to(state.counted_from);
  for (const json& attempt : text.at("attempts"))
    state.attempts.push_back(attempt_of(attempt));
  for (const json& each : text.at("excluded")) {
    state.excluded.push_back({each.at("host").get<std::string>(),
                              each.at("reason").get<std::string>(),
                              each.at("until").get<double>()});
  }
  return state;
}

}  // namespace

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
    // One that never ran lost nothing: its offer was gone.
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
    const json state = parse_json<json>(*text);
    if (state.at("version") != format_version) {
      fail(ExitCode::config,
           "{}: is of version {}, and this program reads {}; use the program that wrote it", path,
           state.at("version").dump(), format_version);
    }
    return state_of(state);
  } catch (const json::exception& error) {
    fail(ExitCode::config,
         "{}: is no state of a campaign ({}); restore it, or choose another directory", path,
         error.what());
  }
}

void save_state(const std::string& directory, const CampaignState& state) {
  json text = {{"version", format_version},          {"id", state.id},
               {"created", state.created},           {"ended", state.ended},
               {"outcome", name_of(state.outcome)},  {"text", state.text},
               {"weights", state.weights},           {"steps", state.steps},
               {"counted_from", state.counted_from}, {"attempts", json::array()},
               {"excluded", json::array()}};
  for (const Attempt& attempt : state.attempts)
    text["attempts"].push_back(json_of(attempt));
  for (const Exclusion& each : state.excluded)
    text["excluded"].push_back(
        {{"host", each.host}, {"reason", each.reason}, {"until", each.until}});
  write_file(state_file_in(directory),
             text.dump(1, ' ', false, json::error_handler_t::replace) + "\n", ExitCode::internal);
}

}  // namespace trireme::campaign
