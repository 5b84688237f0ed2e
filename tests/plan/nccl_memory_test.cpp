// SPDX-License-Identifier: Apache-2.0
// NCCL's buffers, against sums by hand: a connection inside a node takes 2 MiB at the sender and 10
// at the receiver, one over a network 10 at each; 24 channels on 8 GPUs with NVLink, 16 over nodes.
#include "runtime/plan/nccl_memory.h"

#include <gtest/gtest.h>

namespace trireme::plan {
namespace {

constexpr std::uint64_t mib = 1 << 20;

Links h100() {
  return {.domain = 8, .rails = 8, .inside = {.bandwidth = 360e9}, .between = {.bandwidth = 45e9}};
}

NcclMemory of(NcclTraffic traffic, int ranks, int max_ctas = 0, bool direct = true,
              bool nvls = false) {
  return nccl_memory({.span = span_of(MeshAxis::data, {.data = ranks}, h100()),
                      .traffic = traffic,
                      .max_ctas = max_ctas,
                      .nvls = nvls,
                      .direct = direct},
                     h100());
}

TEST(NcclMemory, OneRankHasNoCommunicator) {
  for (const NcclTraffic traffic : {NcclTraffic::gathers, NcclTraffic::sums, NcclTraffic::exchange,
                                    NcclTraffic::send, NcclTraffic::receive}) {
    EXPECT_EQ(of(traffic, 1).device, 0);
    EXPECT_EQ(of(traffic, 1).host, 0);
  }
}

TEST(NcclMemory, RingsAndTreesInsideANodeTakeAConnectionPerChannelAndNeighbour) {
  EXPECT_EQ(of(NcclTraffic::gathers, 8).device, 24 * 12 * mib);
  EXPECT_EQ(of(NcclTraffic::sums, 8).device, 24 * 2 * 12 * mib);
  EXPECT_EQ(of(NcclTraffic::sums, 8, 8).device, 8 * 2 * 12 * mib);
}

// 16 channels, of which a rank leads two out of its node: on two nodes to one neighbour, on eight
// to the ring's and the tree's three.
TEST(NcclMemory, OverNodesEachRankLeadsItsShareOfTheChannels) {
  EXPECT_EQ(of(NcclTraffic::gathers, 64).device, (14 * 12 + 2 * 20) * mib);
  EXPECT_EQ(of(NcclTraffic::sums, 16).device, (14 * 2 * 12 + 2 * 20) * mib);
  EXPECT_EQ(of(NcclTraffic::sums, 64).device, (14 * 2 * 12 + 2 * 4 * 20) * mib);
}

TEST(NcclMemory, MessagesBetweenAllPairsTakeEveryChannelToEveryPeer) {
  const std::uint64_t rings = of(NcclTraffic::gathers, 8).device;
  EXPECT_EQ(of(NcclTraffic::exchange, 8).device, rings + 7 * 32 * 12 * mib);
  EXPECT_EQ(of(NcclTraffic::exchange, 8, 2).device, 2 * 12 * mib + 7 * 2 * 12 * mib);
}

// Peers outside share two buffers of 2 MiB a channel, and one connection each.
TEST(NcclMemory, MessagesToOtherNodesShareBuffers) {
  const std::uint64_t rings = of(NcclTraffic::gathers, 64).device;
  EXPECT_EQ(of(NcclTraffic::exchange, 64).device, rings + 7 * 12 * mib + 2 * 16 * 2 * mib);
  EXPECT_LT(of(NcclTraffic::exchange, 1024).device, 2 * of(NcclTraffic::exchange, 64).device);
}

TEST(NcclMemory, ALinkBetweenStagesTakesTheChannelsOfOnePeer) {
  EXPECT_EQ(of(NcclTraffic::receive, 8).device, 32 * 10 * mib);
  EXPECT_EQ(of(NcclTraffic::send, 8).device, 32 * 2 * mib);
  EXPECT_EQ(of(NcclTraffic::receive, 8, 2).device, 2 * 10 * mib);
}

TEST(NcclMemory, WithoutDirectAdaptersNetworkBuffersAreTheHosts) {
  const NcclMemory direct = of(NcclTraffic::sums, 64);
  const NcclMemory bounced = of(NcclTraffic::sums, 64, 0, false);
  EXPECT_EQ(bounced.device, 14 * 2 * 12 * mib);
  EXPECT_GT(bounced.host, direct.host + 2 * 4 * 17 * mib);
}

TEST(NcclMemory, NvlinkSharpTakesAHeadPerRank) {
  EXPECT_EQ(of(NcclTraffic::sums, 8, 0, true, true).device - of(NcclTraffic::sums, 8).device,
            16 * 2 * 8 * mib);
}

}  // namespace
}  // namespace trireme::plan
