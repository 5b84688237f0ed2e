// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/nccl_memory.h"

#include <algorithm>
#include <bit>

namespace trireme::plan {
namespace {

// Buffers of a connection by protocol: init.cc, DEFAULT_LL_BUFFSIZE, DEFAULT_LL128_BUFFSIZE and
// DEFAULT_BUFFSIZE; the extents are those of device.h.
constexpr std::uint64_t steps = 8;
constexpr std::uint64_t ll = 8 * 512 * steps * 16;
constexpr std::uint64_t ll128 = 120 * 640 * steps * 8;
constexpr std::uint64_t simple = std::uint64_t{4} << 20;
// ncclSendMem and ncclRecvMem of comm.h: a page each.
constexpr std::uint64_t page = 4096;

// CUDA_IPC_MIN of comm.h: what peers map is rounded up to it.
constexpr std::uint64_t whole(std::uint64_t bytes) {
  constexpr std::uint64_t granule = std::uint64_t{2} << 20;
  return (bytes + granule - 1) / granule * granule;
}

// transport/p2p.cc, p2pSendSetup and p2pRecvSetup: the receiver has the buffers. (GPUs that read
// their peers' memory, sm_80, keep `simple` at the sender: the same sum.)
constexpr NcclMemory inside_send{.device = whole(page)};
constexpr NcclMemory inside_receive{.device = whole(page + ll + ll128 + simple)};

// transport/net.cc, sendProxyConnect and recvProxyConnect: connections of rings and trees.
constexpr NcclMemory outside_send(bool direct) {
  return direct ? NcclMemory{whole(ll128 + simple), ll + 2 * page}
                : NcclMemory{0, ll + ll128 + simple + 2 * page};
}
constexpr NcclMemory outside_receive(bool direct) {
  return direct ? NcclMemory{whole(ll + ll128 + simple), 2 * page}
                : NcclMemory{0, ll + ll128 + simple + 2 * page};
}

constexpr NcclMemory times(NcclMemory memory, std::uint64_t count) {
  return {memory.device * count, memory.host * count};
}

bool over_nvlink(const Links& links) {
  return links.inside.bandwidth >= slowest_nvlink;
}

int power_of_two(int value) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(1, value))));
}

// graph/paths.cc, ncclTopoComputeP2pChannels: all channels to a peer over NVLink, whose rings are
// no more than twice its links; two over PCIe; over a network two, fewer in large groups. The least
// of all peers' holds for each.
int channels_per_peer(const NcclGroup& group, const Links& links, int channels) {
  int least = over_nvlink(links) ? channels : std::min(channels, 2);
  if (group.span.domains > 1) {
    int outside = 2;
    while (outside * group.span.size > 4 * channels && outside > 1)
      outside /= 2;
    least = std::min(least, outside);
  }
  return least;
}

// transport/net.cc, sharedNetBuffersInit: the messages to all ranks outside of the domain share one
// buffer, those from them another. NCCL_SHARED_STEPS slots of NCCL_P2P_NET_CHUNKSIZE per channel.
NcclMemory shared_buffer(int channels, bool direct) {
  const std::uint64_t bytes =
      std::uint64_t{16} * (128 << 10) * static_cast<std::uint64_t>(channels);
  return direct ? NcclMemory{bytes, 0} : NcclMemory{0, bytes};
}

// Messages to `inside` ranks of this domain and `outside` others, in one direction.
NcclMemory messages(const NcclGroup& group, const Links& links, int inside, int outside,
                    const NcclMemory& connection) {
  const int channels = power_of_two(nccl_channels(group, links));
  const auto per_peer = static_cast<std::uint64_t>(channels_per_peer(group, links, channels));
  NcclMemory memory = times(connection, static_cast<std::uint64_t>(inside) * per_peer);
  if (outside == 0) return memory;
  memory += shared_buffer(channels, group.direct);
  memory.host += static_cast<std::uint64_t>(outside) * per_peer * 2 * page;
  return memory;
}

// A ring has one neighbour on each side; a tree has both directions between the same neighbours,
// and over domains a parent and two children (graph/connect.cc, connectRings and connectTrees). Of
// the channels, each rank of a domain leads an equal share out of it.
NcclMemory collectives(const NcclGroup& group, const Links& links, bool trees) {
  const GroupSpan& span = group.span;
  const int channels = nccl_channels(group, links);
  const int crossing = span.domains > 1 ? (channels + span.per_domain - 1) / span.per_domain : 0;
  const int inside = span.per_domain > 1 ? channels - crossing : 0;
  const int neighbours = trees ? std::min(span.domains - 1, 3) + (span.domains > 2 ? 1 : 0) : 1;
  NcclMemory memory;
  for (const NcclMemory& each : {inside_send, inside_receive})
    memory += times(each, static_cast<std::uint64_t>(inside * (trees ? 2 : 1)));
  for (const NcclMemory& each : {outside_send(group.direct), outside_receive(group.direct)})
    memory += times(each, static_cast<std::uint64_t>(crossing * neighbours));
  return memory;
}

// transport/nvls.cc, ncclNvlsBufferSetup: of NVLS_NCHANNELS_SM90 channels, NCCL_NVLS_CHUNKSIZE a
// step, two directions, one head per rank.
NcclMemory nvls(const NcclGroup& group) {
  const int channels = group.max_ctas > 0 ? std::min(16, group.max_ctas) : 16;
  return {std::uint64_t{2} * (128 << 10) * steps * static_cast<std::uint64_t>(channels) *
          static_cast<std::uint64_t>(group.span.per_domain)};
}

}  // namespace

// graph/search.cc and connect.cc: one domain of NVLink gives 12 rings, a network one per adapter,
// PCIe one; all are doubled, over a network twice where that makes less than 16. Logs of DGX A100
// and H100 agree: "24 coll channels", over nodes 16.
int nccl_channels(const NcclGroup& group, const Links& links) {
  const GroupSpan& span = group.span;
  int channels = over_nvlink(links) ? 24 : 2;
  if (span.domains > 1) {
    channels = 2 * std::max(1, links.rails * span.per_domain / std::max(1, links.domain));
    if (over_nvlink(links) && channels < 16) channels *= 2;
  }
  if (group.max_ctas > 0) channels = std::min(channels, group.max_ctas);
  return std::max(channels, group.min_ctas);
}

NcclMemory nccl_memory(const NcclGroup& group, const Links& links) {
  const GroupSpan& span = group.span;
  if (span.size <= 1) return {};
  const int inside = span.per_domain - 1, outside = span.size - span.per_domain;
  // init.cc, NCCL_WORK_FIFO_BYTES_DEFAULT.
  NcclMemory memory{.device = 0, .host = std::uint64_t{1} << 20};
  switch (group.traffic) {
    case NcclTraffic::gathers:
    case NcclTraffic::sums:
      memory += collectives(group, links, group.traffic == NcclTraffic::sums);
      if (group.nvls && over_nvlink(links) && span.domains == 1) memory += nvls(group);
      break;
    case NcclTraffic::exchange:
      memory += collectives(group, links, false);
      memory += messages(group, links, inside, outside, inside_send);
      memory += messages(group, links, inside, outside, inside_receive);
      break;
    case NcclTraffic::send:
      memory += messages(group, links, std::min(1, inside), inside > 0 ? 0 : 1, inside_send);
      break;
    case NcclTraffic::receive:
      memory += messages(group, links, std::min(1, inside), inside > 0 ? 0 : 1, inside_receive);
      break;
  }
  return memory;
}

}  // namespace trireme::plan
