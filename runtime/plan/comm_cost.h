// SPDX-License-Identifier: Apache-2.0
// Cost of messages between ranks: alpha and beta per kind of link (Hockney, 1994), collectives in
// two levels (inside a domain of fast links, and between domains). Pure functions.
#pragma once

#include <cstdint>

#include "runtime/comm/process_mesh.h"
#include "runtime/plan/hardware.h"

namespace trireme::plan {

// The data axis, and its two levels with ZeRO groups: ProcessMesh::zero() and replicas(); the same
// among ranks with the same experts, the ranks that share experts, and those that share sequences.
enum class MeshAxis : std::uint8_t {
  pipeline,
  data,
  tensor,
  zero,
  replicas,
  experts,
  expert_zero,
  expert_replicas,
  context
};

// Placement of a group in the machine, for the group of rank 0. Groups of an axis are alike, except
// at the end of a machine that they do not fill.
struct GroupSpan {
  int size = 1;
  int domains = 1;     // that the group spans
  int per_domain = 1;  // most members in one domain
  // Bytes per second that all members in one domain send out together, while all other groups do
  // the same.
  double out_bandwidth = 0;
};
[[nodiscard]] GroupSpan span_of(MeshAxis axis, const MeshShape& mesh, const Links& links);

enum class Collective : std::uint8_t { all_reduce, reduce_scatter, all_gather, all_to_all };

// Seconds of one collective. `bytes`: of the whole tensor (all_to_all: of what one rank holds).
//
// n domains with k members each. All-reduce, as reduce-scatter and all-gather inside around an
// all-reduce between, in pieces that overlap:
//   2 (log2(k) alpha_in + log2(n) alpha_out) + bytes * max(2 (k-1)/k / B_in, 2 (n-1)/n / B_out),
// with B_out the domain's share of the adapters; reduce-scatter and all-gather are one half. Volume
// terms are those of rings, latencies those of trees (Thakur et al., 2005; NCCL picks by size).
[[nodiscard]] double seconds_of(Collective collective, double bytes, const GroupSpan& group,
                                const Links& links);
// Bytes that one rank sends: 2 (N-1)/N, or (N-1)/N, of `bytes`.
[[nodiscard]] double bytes_sent(Collective collective, double bytes, int ranks);
// Those of them that leave the domain, a rank's share. `direct`: every rank sends to every other
// (groups of CPU ranks), instead of rings through the domains.
[[nodiscard]] double bytes_sent_out(Collective collective, double bytes, const GroupSpan& group,
                                    bool direct);

// A message from each pipeline stage to the next: the slowest of them.
[[nodiscard]] double seconds_to_next_stage(double bytes, const MeshShape& mesh, const Links& links);

}  // namespace trireme::plan
