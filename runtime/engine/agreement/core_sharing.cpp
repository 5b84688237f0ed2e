// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/agreement/core_sharing.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/host_name.h"
#include "runtime/base/json.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

// Ranks of `host` that may run on no other cores than `cores`.
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

}  // namespace trireme
