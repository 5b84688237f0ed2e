// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/comm_cost.h"

#include <algorithm>
#include <cmath>

namespace trireme::plan {
namespace {

double rounds(int ranks) {
  return ranks > 1 ? std::ceil(std::log2(static_cast<double>(ranks))) : 0;
}

// Of a ring: what each of `ranks` passes on.
double ring_share(int ranks) {
  return static_cast<double>(ranks - 1) / ranks;
}

// When all ranks of a domain send at once.
double bandwidth_out_per_rank(const MeshShape& mesh, const Links& links) {
  const int senders = std::min(mesh.size(), links.domain);
  return links.between.bandwidth * std::min(1.0, static_cast<double>(links.rails) / senders);
}

}  // namespace

GroupSpan span_of(MeshAxis axis, const MeshShape& mesh, const Links& links) {
  // rank = (pipeline * data_size + data) * tensor_size + tensor.
  const std::int64_t apart = std::int64_t{mesh.tensor} * mesh.expert;  // of ranks with one expert
  const auto [size, stride] = [&]() -> std::pair<int, std::int64_t> {
    switch (axis) {
      case MeshAxis::tensor:
        return {mesh.tensor, 1};
      case MeshAxis::data:
        return {mesh.data, mesh.tensor};
      case MeshAxis::zero:
        return {mesh.shard, mesh.tensor};
      case MeshAxis::replicas:
        return {mesh.data / mesh.shard, std::int64_t{mesh.tensor} * mesh.shard};
      case MeshAxis::experts:
        return {mesh.expert * mesh.tensor, 1};
      case MeshAxis::expert_zero:
        return {mesh.expert_shard(), apart};
      case MeshAxis::expert_replicas:
        return {mesh.data / mesh.expert / mesh.expert_shard(), apart * mesh.expert_shard()};
      case MeshAxis::context:
        return {mesh.context, mesh.tensor};
      case MeshAxis::pipeline:
        break;
    }
    return {mesh.pipeline, std::int64_t{mesh.tensor} * mesh.data};
  }();
  GroupSpan span{.size = size, .domains = 0, .per_domain = 0};
  std::int64_t here = -1;
  int members = 0;
  for (int i = 0; i < size; ++i) {
    const std::int64_t domain = i * stride / links.domain;
    if (domain != here) {
      ++span.domains;
      members = 0;
    }
    here = domain;
    span.per_domain = std::max(span.per_domain, ++members);
  }
  span.out_bandwidth = span.per_domain * bandwidth_out_per_rank(mesh, links);
  return span;
}

double seconds_of(Collective collective, double bytes, const GroupSpan& group, const Links& links) {
  if (group.size == 1 || bytes <= 0) return 0;
  if (collective == Collective::all_to_all) {
    const double inside = (group.per_domain - 1) * bytes / group.size;
    const double out = (group.size - group.per_domain) * bytes / group.size;
    const double out_rank = group.out_bandwidth / group.per_domain;
    return std::max(inside > 0 ? links.inside.latency + inside / links.inside.bandwidth : 0,
                    out > 0 ? links.between.latency + out / out_rank : 0);
  }
  const double latency = rounds(group.per_domain) * links.inside.latency +
                         rounds(group.domains) * links.between.latency;
  const double inside = ring_share(group.per_domain) * bytes / links.inside.bandwidth;
  const double out =
      group.domains > 1 ? ring_share(group.domains) * bytes / group.out_bandwidth : 0;
  const double one_way = latency + std::max(inside, out);
  return collective == Collective::all_reduce ? 2 * one_way : one_way;
}

double bytes_sent(Collective collective, double bytes, int ranks) {
  return (collective == Collective::all_reduce ? 2 : 1) * ring_share(ranks) * bytes;
}

double bytes_sent_out(Collective collective, double bytes, const GroupSpan& group, bool direct) {
  if (group.domains == 1) return 0;
  const double share = direct || collective == Collective::all_to_all
                           ? static_cast<double>(group.size - group.per_domain) / group.size
                           : ring_share(group.domains) / group.per_domain;
  return (collective == Collective::all_reduce ? 2 : 1) * share * bytes;
}

double seconds_to_next_stage(double bytes, const MeshShape& mesh, const Links& links) {
  if (mesh.pipeline == 1) return 0;
  const int stage_ranks = mesh.data * mesh.tensor;
  for (int stage = 1; stage < mesh.pipeline; ++stage) {
    for (int i = 0; i < std::min(stage_ranks, links.domain); ++i) {
      const int to = stage * stage_ranks + i;
      if (to / links.domain != (to - stage_ranks) / links.domain)
        return links.between.latency + bytes / bandwidth_out_per_rank(mesh, links);
    }
  }
  return links.inside.latency + bytes / links.inside.bandwidth;
}

}  // namespace trireme::plan
