// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/comm_cost.h"

#include <gtest/gtest.h>

namespace trireme::plan::test {
namespace {

// Latencies and bandwidths with simple sums.
constexpr Links links{.domain = 8,
                      .rails = 8,
                      .inside = {.latency = 1e-6, .bandwidth = 100e9},
                      .between = {.latency = 10e-6, .bandwidth = 10e9},
                      .overlap = 1};
constexpr double gigabyte = 1e9;

TEST(GroupSpan, FollowsFromTheMesh) {
  const MeshShape mesh{.pipeline = 2, .data = 8, .tensor = 4};  // 64 ranks, 8 domains

  const GroupSpan tensor = span_of(MeshAxis::tensor, mesh, links);
  EXPECT_EQ(tensor.size, 4);
  EXPECT_EQ(tensor.domains, 1);
  EXPECT_EQ(tensor.per_domain, 4);

  // Ranks 0, 4, 8, ..., 28.
  const GroupSpan data = span_of(MeshAxis::data, mesh, links);
  EXPECT_EQ(data.size, 8);
  EXPECT_EQ(data.domains, 4);
  EXPECT_EQ(data.per_domain, 2);
  EXPECT_DOUBLE_EQ(data.out_bandwidth, 2 * 10e9);

  const GroupSpan pipeline = span_of(MeshAxis::pipeline, mesh, links);
  EXPECT_EQ(pipeline.domains, 2);
  EXPECT_EQ(pipeline.per_domain, 1);
}

TEST(GroupSpan, OfZeroGroupsAndTheirReplicas) {
  const MeshShape mesh{.data = 16, .tensor = 2, .shard = 4};  // 32 ranks, 4 domains

  const GroupSpan zero = span_of(MeshAxis::zero, mesh, links);
  EXPECT_EQ(zero.size, 4);
  EXPECT_EQ(zero.domains, 1);

  // Ranks 0, 8, 16, 24.
  const GroupSpan replicas = span_of(MeshAxis::replicas, mesh, links);
  EXPECT_EQ(replicas.size, 4);
  EXPECT_EQ(replicas.domains, 4);
  EXPECT_EQ(replicas.per_domain, 1);
}

TEST(GroupSpan, OfRanksThatShareSequences) {
  const MeshShape mesh{.data = 16, .tensor = 2, .context = 8};  // ranks 0, 2, ..., 14

  const GroupSpan context = span_of(MeshAxis::context, mesh, links);
  EXPECT_EQ(context.size, 8);
  EXPECT_EQ(context.domains, 2);
  EXPECT_EQ(context.per_domain, 4);
}

TEST(CommCost, CountsTheBytesThatLeaveADomain) {
  const GroupSpan inside = span_of(MeshAxis::data, {.data = 8}, links);
  const GroupSpan wide = span_of(MeshAxis::data, {.data = 16}, links);

  EXPECT_EQ(bytes_sent_out(Collective::all_gather, gigabyte, inside, false), 0);
  // A ring through 2 domains passes half of all on, 8 ranks share that.
  EXPECT_DOUBLE_EQ(bytes_sent_out(Collective::all_gather, gigabyte, wide, false), gigabyte / 16);
  EXPECT_DOUBLE_EQ(bytes_sent_out(Collective::all_reduce, gigabyte, wide, false), gigabyte / 8);
  // To each of the 8 ranks of the other domain 1/16.
  EXPECT_DOUBLE_EQ(bytes_sent_out(Collective::all_gather, gigabyte, wide, true), gigabyte / 2);
}

TEST(CommCost, OfOneRankIsZero) {
  const GroupSpan alone = span_of(MeshAxis::data, MeshShape{}, links);

  EXPECT_EQ(seconds_of(Collective::all_reduce, gigabyte, alone, links), 0);
  EXPECT_EQ(bytes_sent(Collective::all_reduce, gigabyte, 1), 0);
}

TEST(CommCost, InsideADomainIsAlphaAndBeta) {
  const GroupSpan group = span_of(MeshAxis::tensor, {.tensor = 8}, links);

  // 2 * (3 rounds of 1 us + 7/8 GB at 100 GB/s).
  EXPECT_DOUBLE_EQ(seconds_of(Collective::all_reduce, gigabyte, group, links),
                   2 * (3e-6 + 0.875 * 0.01));
  EXPECT_DOUBLE_EQ(seconds_of(Collective::all_gather, gigabyte, group, links), 3e-6 + 0.875 * 0.01);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::all_to_all, gigabyte, group, links), 1e-6 + 0.875 * 0.01);
}

TEST(CommCost, BetweenDomainsSharesTheAdapters) {
  // 16 ranks in 2 domains, one group: 8 adapters of 10 GB/s each carry it.
  const GroupSpan wide = span_of(MeshAxis::data, {.data = 16}, links);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::reduce_scatter, gigabyte, wide, links),
                   3e-6 + 10e-6 + 0.875 / 100);  // inside a domain takes longer
  Links slower = links;
  slower.between.bandwidth = 5e9;
  EXPECT_DOUBLE_EQ(seconds_of(Collective::reduce_scatter, gigabyte,
                              span_of(MeshAxis::data, {.data = 16}, slower), slower),
                   3e-6 + 10e-6 + 0.5 / 40);

  // Eight groups of one rank per domain share them.
  const GroupSpan narrow = span_of(MeshAxis::data, {.data = 2, .tensor = 8}, links);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::reduce_scatter, gigabyte, narrow, links),
                   10e-6 + 0.5 / 10);
  EXPECT_DOUBLE_EQ(seconds_of(Collective::all_to_all, gigabyte, narrow, links), 10e-6 + 0.5 / 10);
}

TEST(CommCost, FewerRailsAreShared) {
  Links one_rail = links;
  one_rail.rails = 1;
  const GroupSpan narrow = span_of(MeshAxis::data, {.data = 2, .tensor = 8}, one_rail);

  EXPECT_DOUBLE_EQ(seconds_of(Collective::reduce_scatter, gigabyte, narrow, one_rail),
                   10e-6 + 8 * 0.5 / 10);
}

TEST(CommCost, VolumesAreThoseOfRings) {
  EXPECT_DOUBLE_EQ(bytes_sent(Collective::all_reduce, 100, 4), 150);
  EXPECT_DOUBLE_EQ(bytes_sent(Collective::reduce_scatter, 100, 4), 75);
  EXPECT_DOUBLE_EQ(bytes_sent(Collective::all_gather, 100, 4), 75);
}

TEST(CommCost, ToTheNextStageTakesTheSlowestLink) {
  EXPECT_EQ(seconds_to_next_stage(gigabyte, MeshShape{}, links), 0);
  EXPECT_DOUBLE_EQ(seconds_to_next_stage(gigabyte, {.pipeline = 4, .tensor = 2}, links),
                   1e-6 + 0.01);
  EXPECT_DOUBLE_EQ(seconds_to_next_stage(gigabyte, {.pipeline = 4, .tensor = 8}, links),
                   10e-6 + 0.1);
  // Stages 0 and 1 share a domain, 2 does not.
  EXPECT_DOUBLE_EQ(seconds_to_next_stage(gigabyte, {.pipeline = 3, .tensor = 4}, links),
                   10e-6 + 0.1);
}

}  // namespace
}  // namespace trireme::plan::test
