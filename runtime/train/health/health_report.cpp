// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/health/health_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr double slow_device = 0.6, slow_link = 0.5;  // of the others' median
constexpr std::size_t enough_links = 3;               // for a meaningful median

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Ranks {
  std::span<const HealthSample> samples;
  std::span<const std::string> hosts;

  [[nodiscard]] std::string name(std::size_t rank) const {
    return fmt::format("rank {} on {}", rank, hosts[rank]);
  }
  [[nodiscard]] std::size_t before(std::size_t rank) const {
    return (rank + samples.size() - 1) % samples.size();
  }
  [[nodiscard]] bool leaves_host(std::size_t rank) const {
    return hosts[before(rank)] != hosts[rank];
  }
};

void judge_compute(const Ranks& ranks, std::size_t rank, HealthReport& report) {
  const HealthSample& own = ranks.samples[rank];
  if (own.wrong_rows > 0) {
    report.wrong.push_back(fmt::format("{} computes a wrong result for a known matmul ({} rows)",
                                       ranks.name(rank), own.wrong_rows));
  }
  std::vector<double> others;
  for (std::size_t other = 0; other < ranks.samples.size(); ++other)
    if (other != rank) others.push_back(ranks.samples[other].gflops);
  if (others.empty()) return;
  const double usual = median(std::move(others));
  if (own.gflops >= slow_device * usual) return;
  report.slow.push_back(fmt::format("{} computes at {:.1f} GFLOP/s, the others at {:.1f}",
                                    ranks.name(rank), own.gflops, usual));
}

// The link from the previous rank.
void judge_link(const Ranks& ranks, std::size_t rank, HealthReport& report) {
  const HealthSample& own = ranks.samples[rank];
  const std::size_t before = ranks.before(rank);
  if (own.wrong_words > 0) {
    report.wrong.push_back(fmt::format("data that {} sends to {} arrives changed ({} words)",
                                       ranks.name(before), ranks.name(rank), own.wrong_words));
  }
  std::vector<double> others;
  for (std::size_t other = 0; other < ranks.samples.size(); ++other)
    if (other != rank && ranks.leaves_host(other) == ranks.leaves_host(rank))
      others.push_back(ranks.samples[other].link_mb_per_s);
  if (others.size() < enough_links) return;
  const double usual = median(std::move(others));
  if (own.link_mb_per_s >= slow_link * usual) return;
  report.slow.push_back(fmt::format("the link from {} to {} carries {:.0f} MB/s, others {} {:.0f}",
                                    ranks.name(before), ranks.name(rank), own.link_mb_per_s,
                                    ranks.leaves_host(rank) ? "between hosts" : "within a host",
                                    usual));
}

}  // namespace

std::vector<HealthSample> both_of(std::span<const HealthSample> first,
                                  std::span<const HealthSample> second) {
  std::vector<HealthSample> both;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    const HealthSample &a = first[rank], &b = second[rank];
    both.push_back({.gflops = std::max(a.gflops, b.gflops),
                    .wrong_rows = std::max(a.wrong_rows, b.wrong_rows),
                    .link_mb_per_s = std::max(a.link_mb_per_s, b.link_mb_per_s),
                    .wrong_words = std::max(a.wrong_words, b.wrong_words)});
  }
  return both;
}

HealthReport judge_health(std::span<const HealthSample> by_rank,
                          std::span<const std::string> hosts) {
  HealthReport report;
  const Ranks ranks{by_rank, hosts};
  const bool links = by_rank.size() > 1;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    judge_compute(ranks, rank, report);
    if (links) judge_link(ranks, rank, report);
  }
  const auto [slowest, fastest] = std::ranges::minmax(by_rank, {}, &HealthSample::gflops);
  report.summary = fmt::format("{} of {} rank(s) compute correctly, {:.1f} to {:.1f} GFLOP/s",
                               std::ranges::count(by_rank, 0.0, &HealthSample::wrong_rows),
                               by_rank.size(), slowest.gflops, fastest.gflops);
  if (!links) return report;
  const auto [slow, fast] = std::ranges::minmax(by_rank, {}, &HealthSample::link_mb_per_s);
  report.summary +=
      fmt::format("; links carry {:.0f} to {:.0f} MB/s", slow.link_mb_per_s, fast.link_mb_per_s);
  return report;
}

}  // namespace trireme
