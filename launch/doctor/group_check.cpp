// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "launch/bench/comm/measure.h"
#include "launch/doctor/job_check.h"
#include "launch/doctor/judge.h"
#include "runtime/comm/host_stream.h"
#include "runtime/plan/comm_cost.h"

namespace trireme::doctor {
namespace {

constexpr std::int64_t small = 8, large = 4 << 20;  // bytes

// All-reduce on one group.
struct GroupTimes {
  double small = 0, large = 0;  // seconds
};

struct Kind {
  plan::MeshAxis axis;
  Communicator* group;
};

// The lowest rank in the group of `rank`.
int first_of_group(plan::MeshAxis axis, const MeshShape& shape, int rank) {
  MeshCoordinates at = coordinates_of(shape, rank);
  if (axis == plan::MeshAxis::context) {
    at.data -= at.data % shape.context;
  } else {
    (axis == plan::MeshAxis::tensor ? at.tensor
     : axis == plan::MeshAxis::data ? at.data
                                    : at.pipeline) = 0;
  }
  return rank_of(shape, at);
}

// All ranks' measurements of their own group.
std::vector<GroupTimes> measure(const ProcessMesh& mesh, Communicator& group, Device& device) {
  const GroupTimes own{
      .small = comm_bench::measure(group, group, device, Verb::all_reduce, small).median,
      .large = comm_bench::measure(group, group, device, Verb::all_reduce, large).median};
  std::vector<GroupTimes> all(static_cast<std::size_t>(mesh.shape().size()));
  const HostStream stream;
  const auto view = [](const GroupTimes* times, std::int64_t count) {
    return Tensor{reinterpret_cast<std::byte*>(const_cast<GroupTimes*>(times)), DType::f64,
                  Shape{2 * count}};
  };
  mesh.world().all_gather(*stream, view(&own, 1), view(all.data(), std::ssize(all)));
  return all;
}

double bus_bandwidth(const GroupTimes& times, int ranks) {
  return 1e-6 * bus_factor(Verb::all_reduce, ranks) * static_cast<double>(large) / times.large;
}

std::string describe(const Communicator& group, const GroupTimes& times) {
  return fmt::format(
      "{} groups of {}: all-reduce of 8 bytes {:.0f} us, of 4 MiB {:.2f} ms: bus bandwidth {:.0f} "
      "MB/s",
      group.name(), group.size(), 1e6 * times.small, 1e3 * times.large,
      bus_bandwidth(times, group.size()));
}

// Compares groups of one kind with their median.
void compare(Findings& findings, const Communicator& group,
             const std::map<int, GroupTimes>& by_first, const std::vector<std::string>& hosts) {
  constexpr double tolerated = 3;
  std::vector<double> seconds;
  for (const auto& [first, times] : by_first)
    seconds.push_back(times.large);
  std::ranges::sort(seconds);
  const double median = seconds[(seconds.size() - 1) / 2];
  for (const auto& [first, times] : by_first) {
    if (times.large < tolerated * median) continue;
    findings.note(
        "collectives",
        fmt::format("the {} group that begins with rank {} on {} takes {:.1f} times as "
                    "long as the median of these groups",
                    group.name(), first, hosts[static_cast<std::size_t>(first)],
                    times.large / median),
        "check links and other processes of its hosts; every step waits for its slowest group");
  }
}

void expect(Findings& findings, const Kind& kind, const MeshShape& shape, const GroupTimes& times,
            const plan::Hardware& hardware) {
  constexpr double tolerated = 2;
  const plan::GroupSpan span = plan::span_of(kind.axis, shape, hardware.links);
  const auto expected = [&](std::int64_t bytes) {
    return plan::seconds_of(plan::Collective::all_reduce, static_cast<double>(bytes), span,
                            hardware.links);
  };
  const GroupTimes usual{.small = expected(small), .large = expected(large)};
  const std::string text =
      fmt::format("{}; {} should reach {:.0f} us and {:.0f} MB/s", describe(*kind.group, times),
                  hardware.name, 1e6 * usual.small, bus_bandwidth(usual, kind.group->size()));
  if (times.small > tolerated * usual.small || times.large > tolerated * usual.large) {
    findings.note("collectives", text,
                  "check the choice of interface (TRIREME_INTERFACE, NCCL_SOCKET_IFNAME), other "
                  "jobs on the network and binding; or measure what is usual here: trireme bench "
                  "machine --links --hardware FILE");
  } else {
    findings.fine("collectives", text);
  }
}

}  // namespace

void check_groups(Findings& findings, const ProcessMesh& mesh, Device& device,
                  const std::vector<std::string>& hosts, const plan::Hardware* hardware) {
  for (const Kind& kind :
       {Kind{plan::MeshAxis::tensor, &mesh.tensor()}, Kind{plan::MeshAxis::data, &mesh.data()},
        Kind{plan::MeshAxis::pipeline, &mesh.pipeline()},
        Kind{plan::MeshAxis::context, &mesh.context()}}) {
    const bool again = kind.axis == plan::MeshAxis::context &&
                       mesh.shape().context == mesh.shape().data;  // the data group's ranks
    if (kind.group->size() == 1 || again) continue;
    const auto by_rank = measure(mesh, *kind.group, device);
    if (mesh.world().rank() != 0) continue;
    std::map<int, GroupTimes> by_first;
    GroupTimes slowest;
    for (int rank = 0; rank < mesh.shape().size(); ++rank) {
      const GroupTimes& times = by_rank[static_cast<std::size_t>(rank)];
      by_first.try_emplace(first_of_group(kind.axis, mesh.shape(), rank), times);
      slowest.small = std::max(slowest.small, times.small);
      slowest.large = std::max(slowest.large, times.large);
    }
    if (hardware != nullptr) {
      expect(findings, kind, mesh.shape(), slowest, *hardware);
    } else {
      judge_collectives(findings, describe(*kind.group, slowest), slowest.small,
                        bus_bandwidth(slowest, kind.group->size()));
    }
    compare(findings, *kind.group, by_first, hosts);
  }
}

}  // namespace trireme::doctor
