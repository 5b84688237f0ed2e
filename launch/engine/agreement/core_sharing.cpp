// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/agreement/core_sharing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
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

HostLoads load_of_hosts(std::span<const RankLoad> by_rank) {
  HostLoads hosts;
  std::map<std::string, std::set<int>> counted;
  std::vector<const RankLoad*> widest_first;
  for (const RankLoad& rank : by_rank) {
    auto found = std::ranges::find(hosts, rank.host, &HostLoads::value_type::first);
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {rank.host, MachineLoad{}});
    found->second.own += rank.load.own;
    found->second.waited = std::max(found->second.waited, rank.load.waited);
    widest_first.push_back(&rank);
  }
  std::ranges::stable_sort(widest_first, std::ranges::greater{},
                           [](const RankLoad* rank) { return rank->cores.size(); });
  for (const RankLoad* const rank : widest_first) {
    std::set<int>& cores = counted[rank->host];
    if (std::ranges::any_of(rank->cores, [&](int core) { return cores.contains(core); })) continue;
    cores.insert(rank->cores.begin(), rank->cores.end());
    MachineLoad& load = std::ranges::find(hosts, rank->host, &HostLoads::value_type::first)->second;
    load.cores += rank->load.cores;
    load.busy += rank->load.busy;
    load.stolen += rank->load.stolen;
  }
  return hosts;
}

HostLoads load_of_hosts(Communicator& world, const MachineLoad& own) {
  const nlohmann::json told{{"host", host_name()}, {"set", allowed_cores()}, {"cores", own.cores},
                            {"busy", own.busy},    {"own", own.own},         {"stolen", own.stolen},
                            {"waited", own.waited}};
  std::vector<RankLoad> by_rank;
  for (const std::string& text : gather_texts(world, told.dump())) {
    const auto rank = parse_json(text);
    by_rank.push_back({rank.at("host"),
                       rank.at("set"),
                       {.cores = rank.at("cores"),
                        .busy = rank.at("busy"),
                        .stolen = rank.at("stolen"),
                        .own = rank.at("own"),
                        .waited = rank.at("waited")}});
  }
  return load_of_hosts(by_rank);
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
