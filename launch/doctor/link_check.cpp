// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <array>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "launch/doctor/job_check.h"
#include "runtime/base/clock.h"
#include "runtime/comm/host_stream.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme::doctor {
namespace {

using Clock = std::chrono::steady_clock;

struct Link {
  std::string a, b;
  double trip = 0;       // round trip of 8 bytes in seconds
  double bandwidth = 0;  // MB/s
};

// Both ends must call this; the first one's result counts.
double exchange(Communicator& world, Stream& stream, const Tensor& data, int first, int second,
                int rounds) {
  double best = HUGE_VAL;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
    if (world.rank() == first) {
      world.send(stream, data, second);
      world.recv(stream, data, second);
    } else {
      world.recv(stream, data, first);
      world.send(stream, data, first);
    }
    best = std::min(best, seconds_since(start));
  }
  return best;
}

// Between all pairs of first ranks of hosts; result on rank 0.
std::vector<Link> measure_links(Communicator& world, const std::vector<std::string>& hosts,
                                const std::vector<int>& leaders) {
  constexpr std::int64_t bytes = 1 << 20;
  constexpr int rounds = 10;  // the best of them, because a busy host delays some
  const HostStream stream;
  std::vector<std::byte> memory(bytes);
  const Tensor all{memory.data(), DType::u8, Shape{bytes}};
  std::vector<Link> links;
  for (std::size_t i = 0; i < leaders.size(); ++i) {
    for (std::size_t j = i + 1; j < leaders.size(); ++j) {
      std::array<double, 2> times{};
      const int first = leaders[i], second = leaders[j];
      if (world.rank() == first || world.rank() == second) {
        times[0] = exchange(world, *stream, all.range(0, 8), first, second, rounds);
        times[1] = exchange(world, *stream, all, first, second, rounds);
      }
      world.broadcast(*stream, {reinterpret_cast<std::byte*>(times.data()), DType::f64, Shape{2}},
                      first);
      links.push_back({hosts[static_cast<std::size_t>(first)],
                       hosts[static_cast<std::size_t>(second)], times[0],
                       2e-6 * static_cast<double>(bytes) / times[1]});
    }
  }
  return links;
}

// MB/s of this host's fastest interface; 0: unknown.
double interface_speed() {
  int fastest = 0;
  for (const NetworkInterface& interface : network_interfaces())
    fastest = std::max(fastest, interface.megabits);
  return fastest / 8.0;
}

}  // namespace

void check_links(Findings& findings, Communicator& world, const std::vector<std::string>& hosts,
                 bool busy) {
  // Maximum number of hosts, as pairs take long.
  constexpr std::size_t max_hosts = 16;
  std::vector<int> leaders;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::find(hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]) ==
        hosts.begin() + static_cast<std::ptrdiff_t>(rank)) {
      leaders.push_back(static_cast<int>(rank));
    }
  }
  if (leaders.size() < 2) return;
  leaders.resize(std::min(leaders.size(), max_hosts));
  const auto links = measure_links(world, hosts, leaders);
  if (world.rank() != 0) return;
  constexpr double share_of_interface = 0.1, share_of_best = 0.33, late = 2e-3;
  const double expected = interface_speed();
  const std::string_view first_fix =
      busy ? "measure again without the other processes (load, above); if it stays, " : "";
  double best = 0, shortest = HUGE_VAL;
  for (const Link& link : links) {
    best = std::max(best, link.bandwidth);
    shortest = std::min(shortest, link.trip);
  }
  for (const Link& link : links) {
    const std::string text = fmt::format("{} - {}: {:.0f} MB/s, {:.3f} ms round trip", link.a,
                                         link.b, link.bandwidth, 1e3 * link.trip);
    if (link.bandwidth < share_of_interface * expected || link.bandwidth < share_of_best * best) {
      findings.note(
          "links",
          fmt::format("{}; the interface supports {:.0f} MB/s, the best pair reaches {:.0f}", text,
                      expected, best),
          fmt::format("{}check cables, switch and the choice of interface between these hosts "
                      "(OMPI_MCA_btl_tcp_if_include)",
                      first_fix));
    } else if (link.trip > late || link.trip > 10 * shortest) {
      findings.note("links", text,
                    fmt::format("{}ask for neighbouring nodes: their latency is high", first_fix));
    } else {
      findings.fine("links", text);
    }
  }
}

}  // namespace trireme::doctor
