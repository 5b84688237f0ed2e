// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/bottleneck/rank_times.h"

#include <algorithm>
#include <ranges>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Shares of the run's steps; less is noise. Waits for messages are differences of two times, so
// noisier.
constexpr double min_share = 0.02, min_share_of_messages = 0.04;
// If all ranks lack cores, the rank that the others wait for seems to lack most, since threads that
// poll for messages have a core. So a rank must wait three times as long as the others to be named.
constexpr double own_part_of_core_waits = 2.0 / 3;

auto the(TimePart part) {
  return [part](const Times& rank) { return rank[part]; };
}

// Core waits are known only in part, and the rank with the least known part seems to compute
// longest.
double unsure(std::span<const Times> ranks) {
  return 0.15 * std::ranges::max(ranks | std::views::transform(the(TimePart::core_wait)));
}

// Compares a rank with the others of its stage that have as many micro-batches, or, in stages of
// one rank, with other stages.
class Peers {
 public:
  Peers(const RankMesh& mesh, std::span<const Times> sums) : mesh_(mesh), sums_(sums) {}

  // Each rank's excess of `value` over its peers' usual value.
  template <typename Value>
  [[nodiscard]] std::vector<double> excess(Value value) const {
    std::vector<double> all;
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      std::vector<double> others;
      for (int peer = first(rank); peer < first(rank) + group(); ++peer) {
        if (peer != rank && of(peer)[TimePart::micro_batches] == of(rank)[TimePart::micro_batches])
          others.push_back(value(of(peer)));
      }
      const bool alone = others.empty();
      all.push_back(alone ? 0 : value(of(rank)) - lower_median(std::move(others)));
    }
    return all;
  }
  // The rank with the largest excess, if that is at least `part` of its value and more than
  // `noise`.
  [[nodiscard]] SlowRank odd_one(TimePart value, double part, double noise = 0) const {
    SlowRank odd;
    const std::vector<double> excesses = excess(the(value));
    for (int rank = 0; rank < mesh_.size(); ++rank) {
      const double more = excesses[static_cast<std::size_t>(rank)], own = of(rank)[value];
      if (more < part * own || more < noise || more < min_share * of(rank)[TimePart::period] ||
          1e-3 * more <= odd.seconds)
        continue;
      odd = {.rank = rank, .seconds = 1e-3 * more, .own_seconds = 1e-3 * own};
    }
    return odd;
  }
  [[nodiscard]] const Times& of(int rank) const { return sums_[static_cast<std::size_t>(rank)]; }

 private:
  [[nodiscard]] int group() const {
    return mesh_.per_stage() > 1 ? mesh_.per_stage() : mesh_.size();
  }
  [[nodiscard]] int first(int rank) const { return rank / group() * group(); }

  RankMesh mesh_;
  std::span<const Times> sums_;
};

// The rank that its peers wait for longer than it waits, beyond its own work: all leave a
// collective together, so work, lateness and waits add up to the same on each rank.
SlowRank late_messages(const RankMesh& mesh, const Peers& peers) {
  using enum TimePart;
  const auto arrival = [](const Times& rank) {
    return rank[compute] + rank[data_wait] + rank[core_wait] + rank[between] + rank[bubble];
  };
  const std::vector<double> waits = peers.excess(the(message_wait));
  const std::vector<double> works = peers.excess(arrival);
  SlowRank odd;
  // Without enough cores, threads that poll for messages get them by chance.
  double chance = 0;
  for (int rank = 0; rank < mesh.size(); ++rank)
    chance = std::max(chance, peers.of(rank)[core_wait]);
  const bool known =
      mesh.per_stage() > 1 && std::ranges::any_of(waits, [](double wait) { return wait != 0; });
  for (int rank = 0; rank < mesh.size() && known; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const double late = -waits[at] - works[at];
    if (late < chance || late < min_share_of_messages * peers.of(rank)[period] ||
        1e-3 * late <= odd.seconds)
      continue;
    odd = {.rank = rank, .seconds = 1e-3 * late, .own_seconds = 1e-3 * late};
  }
  return odd;
}

}  // namespace

double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

SlowRanks slow_ranks(const RankMesh& mesh, std::span<const Times> sums) {
  TRIREME_EXPECTS(static_cast<int>(sums.size()) == mesh.size(), "{} ranks for a mesh of {}",
                  sums.size(), mesh.size());
  const Peers peers(mesh, sums);
  SlowRanks slow;
  SlowRank& longest = mesh.per_stage() > 1 ? slow.compute : slow.stage;
  longest = peers.odd_one(TimePart::compute, 0.03, unsure(sums));
  slow.data = peers.odd_one(TimePart::data_wait, 0.5);
  slow.core = peers.odd_one(TimePart::core_wait, own_part_of_core_waits);
  slow.checkpoint = peers.odd_one(TimePart::checkpoint, 0.5);
  slow.messages = late_messages(mesh, peers);
  return slow;
}

}  // namespace trireme
