// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/agreement/core_sharing.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/environment.h"
#include "runtime/base/json.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

// Ranks of `host` that may use no cores other than `cores`.
CoreCrowd crowd_on(std::span<const RankCores> by_rank, const std::string& host,
                   const std::vector<int>& cores) {
  CoreCrowd crowd{.host = host, .ranks = {}, .cores = std::max(1, static_cast<int>(cores.size()))};
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const RankCores& of = by_rank[rank];
    if (of.host != host || !std::ranges::includes(cores, of.cores)) continue;
    crowd.ranks.push_back(static_cast<int>(rank));
    if (of.quota > 0)
      crowd.cores = std::min(crowd.cores, std::max(1, static_cast<int>(std::ceil(of.quota))));
  }
  return crowd;
}

double ranks_per_core(const CoreCrowd& crowd) {
  return static_cast<double>(crowd.ranks.size()) / crowd.cores;
}

}  // namespace

CoreCrowd most_crowded(std::span<const RankCores> by_rank) {
  CoreCrowd worst;
  std::set<std::pair<std::string, std::vector<int>>> seen;
  const auto look = [&](const std::string& host, const std::vector<int>& cores) {
    if (!seen.emplace(host, cores).second) return;
    CoreCrowd crowd = crowd_on(by_rank, host, cores);
    if (ranks_per_core(crowd) > ranks_per_core(worst)) worst = std::move(crowd);
  };
  for (const RankCores& rank : by_rank) {
    std::set<int> of_host;
    for (const RankCores& other : by_rank) {
      if (other.host == rank.host) of_host.insert(other.cores.begin(), other.cores.end());
    }
    look(rank.host, {of_host.begin(), of_host.end()});
    look(rank.host, rank.cores);
  }
  return worst;
}

CoreCrowd most_crowded(Communicator& world) {
  const nlohmann::json own{
      {"host", host_name()}, {"cores", allowed_cores()}, {"quota", host_cpu().cores_quota}};
  std::vector<RankCores> by_rank;
  for (const std::string& text : gather_texts(world, own.dump())) {
    const auto rank = parse_json(text);
    by_rank.push_back({rank.at("host"), rank.at("cores"), rank.at("quota")});
  }
  return most_crowded(by_rank);
}

std::vector<std::pair<std::string, MachineLoad>> load_of_hosts(Communicator& world,
                                                               const MachineLoad& own) {
  const nlohmann::json told{{"host", host_name()}, {"cores", own.cores},   {"busy", own.busy},
                            {"own", own.own},      {"stolen", own.stolen}, {"waited", own.waited}};
  std::vector<std::pair<std::string, MachineLoad>> hosts;
  for (const std::string& text : gather_texts(world, told.dump())) {
    const auto rank = parse_json(text);
    const std::string host = rank.at("host");
    auto found = std::ranges::find(hosts, host, [](const auto& entry) { return entry.first; });
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {host, MachineLoad{}});
    MachineLoad& load = found->second;
    // Ranks may be bound to different cores: the one with the most cores reports other programs.
    if (rank.at("cores") > load.cores) {
      load.cores = rank.at("cores");
      load.busy = rank.at("busy");
      load.stolen = rank.at("stolen");
    }
    load.own += rank.at("own").get<double>();
    load.waited = std::max(load.waited, rank.at("waited").get<double>());
  }
  return hosts;
}

HostLoad most_loaded(Communicator& world, const MachineLoad& own) {
  const auto hosts = load_of_hosts(world, own);
  const auto& [host, load] = *std::ranges::max_element(hosts, {}, [](const auto& entry) {
    const MachineLoad& of = entry.second;
    return (of.others() + of.stolen) / std::max(of.cores, 1);
  });
  return {.host = host, .cores = load.cores, .others = load.others(), .stolen = load.stolen};
}

}  // namespace trireme
