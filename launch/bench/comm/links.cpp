// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/comm/links.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "launch/bench/comm/measure.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/environment.h"

namespace trireme::comm_bench {
namespace {

// Of the slowest group; empty if no group has several ranks. A rank that only waits is alone.
std::optional<plan::Link> slowest_link(Communicator& world, Communicator& group, Device& device,
                                       const MeasureOptions& options) {
  // Latency and time per byte: the largest are the slowest.
  std::array<double, 2> slowest{};
  if (group.size() > 1) {
    const plan::Link link = all_reduce_link(group, group, device, options);
    slowest = {link.latency, 1 / link.bandwidth};
  }
  const HostStream stream;
  const Tensor values{reinterpret_cast<std::byte*>(slowest.data()), DType::f64,
                      Shape{std::ssize(slowest)}};
  world.all_reduce(*stream, values, values, ReduceOp::max);
  if (slowest[1] == 0) return {};
  if (std::isinf(slowest[1])) {
    fail(ExitCode::config,
         "bench machine: large messages take no longer than small ones; try again when the machine "
         "is idle");
  }
  return plan::Link{.latency = slowest[0], .bandwidth = 1 / slowest[1]};
}

}  // namespace

plan::Link link_of_all_reduce(const LinkFit& fit, int ranks) {
  return {.latency = fit.latency / (2 * std::ceil(std::log2(ranks))),
          .bandwidth = fit.bandwidth * bus_factor(Verb::all_reduce, ranks)};
}

plan::Link all_reduce_link(Communicator& group, Communicator& world, Device& device,
                           const MeasureOptions& options) {
  std::vector<TimedBytes> times;
  for (const std::int64_t wished : {256, 16 << 10, 256 << 10, 4 << 20}) {
    const std::int64_t bytes = size_of(Verb::all_reduce, group.size(), wished);
    times.push_back({static_cast<double>(bytes),
                     measure(group, world, device, Verb::all_reduce, bytes, options).median});
  }
  return link_of_all_reduce(fit_network(times), group.size());
}

MeasureOptions link_options(const Device& device, int repeats) {
  if (device.type() != DeviceType::cpu) return {.repeats = repeats};
  return {.repeats = repeats, .batch_seconds = 20e-3, .pause_seconds = 1e-3};
}

MeasuredLinks measure_links(Communicator& world, Device& device) {
  const MeasureOptions options = link_options(device, /*repeats=*/15);
  const std::vector<std::string> hosts = gather_texts(world, host_name());
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    ranks[hosts[rank]].push_back(static_cast<int>(rank));
  const auto here = ranks.find(hosts[static_cast<std::size_t>(world.rank())]);
  const bool leads = here->second.front() == world.rank();
  MeasuredLinks links;
  for (const auto& [host, members] : ranks)
    links.ranks_per_host = std::max(links.ranks_per_host, static_cast<int>(members.size()));
  const auto inside =
      world.split(static_cast<int>(std::distance(ranks.begin(), here)), world.rank(), "host");
  links.inside = slowest_link(world, *inside, device, options);
  const auto between = world.split(leads ? 0 : 1 + world.rank(), world.rank(), "hosts");
  links.between = slowest_link(world, *between, device, options);
  return links;
}

void update_hardware_file(const std::string& path, const MeasuredLinks& links) {
  plan::Hardware hardware = plan::load_hardware(path);
  // Links inside a host and between hosts were measured, so a domain is a host, however few of its
  // ranks took part.
  hardware.node.ranks = std::max(hardware.node.ranks, links.ranks_per_host);
  hardware.links.domain = hardware.node.ranks;
  if (links.inside) hardware.links.inside = *links.inside;
  if (links.between) hardware.links.between = *links.between;
  const std::string comment =
      fmt::format("Links measured by trireme bench machine --links, {}: {}{}", version_text(),
                  links.inside ? "inside a host" : "", links.between ? ", between hosts" : "");
  write_file(path, plan::to_yaml(hardware, comment), ExitCode::config);
}

// Minimises sum(((a + b x) / t - 1)^2): the normal equations of ordinary least squares with weights
// 1 / t^2.
LinkFit fit_link(std::span<const TimedBytes> times) {
  TRIREME_EXPECTS(!times.empty(), "no times");
  constexpr double one_size = 1e-12;  // relative spread below which all sizes are equal
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& [x, t] : times) {
    const double weight = 1 / (t * t);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * t;
    wxt += weight * x * t;
  }
  const double determinant = w * wxx - wx * wx;
  double slope = determinant > one_size * w * wxx ? (w * wxt - wx * wt) / determinant : 0;
  double latency = (wt - slope * wx) / w;
  if (latency < 0) {
    latency = 0;
    slope = wxt / wxx;
  }
  if (slope <= 0) return {.latency = wt / w};
  return {.latency = latency, .bandwidth = 1 / slope};
}

LinkFit fit_network(std::span<const TimedBytes> times) {
  LinkFit fit = fit_link(times);
  const auto& [bytes, seconds] = times.back();
  if (fit.bandwidth > 0 && seconds > fit.latency)
    fit.bandwidth = std::min(fit.bandwidth, bytes / (seconds - fit.latency));
  return fit;
}

}  // namespace trireme::comm_bench
