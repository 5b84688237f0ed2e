// SPDX-License-Identifier: Apache-2.0
#include "launch/campaign/cluster/slurm_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <set>
#include <sstream>

namespace trireme::campaign {
namespace {

bool among(const std::vector<std::string>& all, const std::string& name) {
  return std::ranges::find(all, name) != all.end();
}

// Each "node|state" of sinfo, without the state's suffix: * is no answer.
template <typename Visit>
void for_each_node(std::string_view text, Visit&& visit) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t bar = line.find('|');
    if (bar == std::string::npos) continue;
    std::string state = line.substr(bar + 1);
    const bool answers = state.find('*') == std::string::npos;
    state = state.substr(0, state.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
    visit(line.substr(0, bar), state, answers);
  }
}

struct Refusal {
  std::string_view text, advice;
};
// Slurm's messages.
constexpr std::array<Refusal, 20> permanent{{
    {"nvalid account or account/partition combination",
     "; set slurm.account to one of `sacctmgr show associations user=$USER`"},
    {"nvalid partition name", "; set slurm.partitions to some of `sinfo -s`"},
    {"nvalid qos", "; set slurm.qos to one of `sacctmgr show qos`"},
    {"User's group not permitted to use this partition", "; choose other slurm.partitions"},
    {"not permitted to use this partition", "; choose other slurm.partitions"},
    {"Requested time limit is invalid", "; lower slurm.minutes"},
    {"unrecognized option", "; correct slurm.options"},
    {"nvalid option", "; correct slurm.options"},
    {"nvalid generic resource", "; correct slurm.options"},
    // Reasons of waiting jobs.
    {"(InvalidAccount", "; set slurm.account to one of `sacctmgr show associations user=$USER`"},
    {"(AccountNotAllowed", "; set slurm.account to one that the partition takes"},
    {"(InvalidQOS", "; set slurm.qos to one of `sacctmgr show qos`"},
    {"(QOSNotAllowed", "; set slurm.qos to one that the partition takes"},
    {"(PartitionTimeLimit", "; lower slurm.minutes"},
    {"(PartitionNodeLimit", "; lower nodes.max"},
    {"(AssocMaxNodePerJobLimit", "; lower nodes.max"},
    {"(QOSMaxNodePerJobLimit", "; lower nodes.max"},
    {"(AssocGrpCPUMinutesLimit",
     "; the account has no budget left: have it raised, or set another slurm.account"},
    {"(AssocGrpBillingMinutes",
     "; the account has no budget left: have it raised, or set another slurm.account"},
    {"(QOSGrpCPUMinutesLimit",
     "; the QOS has no budget left: have it raised, or set another slurm.qos"},
}};

}  // namespace

std::vector<std::string> idle_nodes(std::string_view text, const std::vector<std::string>& excluded,
                                    const std::vector<std::string>& own) {
  std::set<std::string> found;
  for_each_node(text, [&](const std::string& node, const std::string& state, bool answers) {
    const bool is_free =
        state == "idle" || (among(own, node) && (state == "allocated" || state == "mixed"));
    if (is_free && answers && !among(excluded, node)) found.insert(node);
  });
  return {found.begin(), found.end()};
}

std::vector<std::string> broken_nodes(std::string_view text) {
  std::set<std::string> found;
  for_each_node(text, [&](const std::string& node, const std::string& state, bool answers) {
    const bool broken = state.starts_with("down") || state.starts_with("fail");
    if (broken || !answers) found.insert(node);
  });
  return {found.begin(), found.end()};
}

std::optional<double> local_seconds(const std::string& date) {
  std::tm local{};
  const char* const end = ::strptime(date.c_str(), "%Y-%m-%dT%H:%M:%S", &local);
  if (end == nullptr) return {};
  local.tm_isdst = -1;
  return static_cast<double>(std::mktime(&local));
}

std::optional<double> expected_start(std::string_view text) {
  constexpr std::string_view words = " to start at ";
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + words.size());
  return local_seconds(std::string(rest.substr(0, rest.find(' '))));
}

bool is_permanent(std::string_view refusal) {
  return std::ranges::any_of(permanent, [&](const Refusal& each) {
    return refusal.find(each.text) != std::string_view::npos;
  });
}

bool never_starts(std::string_view state) {
  return state.find(" (") != std::string_view::npos && is_permanent(state);
}

std::string_view advice_for(std::string_view refusal) {
  const auto found = std::ranges::find_if(permanent, [&](const Refusal& each) {
    return refusal.find(each.text) != std::string_view::npos;
  });
  return found == permanent.end() ? "" : found->advice;
}

std::map<std::string, std::string> job_fields(std::string_view line) {
  std::map<std::string, std::string> fields;
  std::istringstream words{std::string(line)};
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos)
      fields.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return fields;
}

std::optional<int> code_in_log(std::string_view log) {
  constexpr std::string_view words = "the run ended with exit code ";
  const std::size_t at = log.rfind(words);
  if (at == std::string_view::npos) return {};
  int code = 0;
  const std::string_view rest = log.substr(at + words.size());
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), code);
  if (parsed.ec != std::errc()) return {};
  return code;
}

}  // namespace trireme::campaign
