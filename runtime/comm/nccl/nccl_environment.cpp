// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/comm/host_stream.h"
#include "runtime/device/cuda/cuda_device.h"

namespace trireme {
namespace {

struct Place {
  std::array<char, 64> host{};
  std::array<char, 32> gpu{};  // its address on the bus; device numbers differ between processes
  friend bool operator==(const Place&, const Place&) = default;
};

Place own_place(Device& device) {
  Place place;
  if (gethostname(place.host.data(), place.host.size() - 1) != 0)
    system_failed("gethostname", "this host");
  TRIREME_CUDA(cudaDeviceGetPCIBusId(place.gpu.data(), static_cast<int>(place.gpu.size()),
                                     CudaDevice::of(device).index()));
  return place;
}

std::vector<Place> gather_places(Communicator& group, Device& device) {
  Place own = own_place(device);
  std::vector<Place> all(static_cast<std::size_t>(group.size()));
  const auto bytes_of = [](std::span<Place> places) -> Tensor {
    return {reinterpret_cast<std::byte*>(places.data()), DType::u8,
            Shape{static_cast<std::int64_t>(places.size_bytes())}};
  };
  const HostStream stream;
  group.all_gather(*stream, bytes_of({&own, 1}), bytes_of(all));
  return all;
}

// NCCL compares the GPUs of ranks on one host, so each rank is made a host of its own. Shared
// memory and peer access then do not apply; messages go through sockets, on one host those of the
// loopback interface. Ranks take turns on the GPU: few and simple thread blocks keep a turn short.
std::vector<std::pair<std::string, std::string>> settings(int rank, bool one_host) {
  std::vector<std::pair<std::string, std::string>> result = {
      {"NCCL_HOSTID", fmt::format("rank{}", rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_SOCKET_FAMILY", "AF_INET"},
      {"NCCL_IB_DISABLE", "1"},
      {"NCCL_MNNVL_ENABLE", "0"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NCCL_ALGO", "Ring"},
      {"NCCL_PROTO", "Simple"},
      {"NCCL_MAX_CTAS", "2"},
      {"NCCL_CUMEM_HOST_ENABLE", "0"},
      {"NCCL_RAS_ENABLE", "0"}};
  if (one_host) result.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return result;
}

}  // namespace

void prepare_for_shared_gpus(Communicator& group, Device& device) {
  const std::vector<Place> places = gather_places(group, device);
  std::vector<Place> sorted = places;
  const auto key = [](const Place& place) { return std::pair(place.host, place.gpu); };
  std::ranges::sort(sorted, {}, key);
  if (std::ranges::adjacent_find(sorted) == sorted.end()) return;
  const bool one_host = sorted.front().host == sorted.back().host;
  std::string set;
  for (const auto& [name, value] : settings(group.rank(), one_host)) {
    if (std::getenv(name.c_str()) != nullptr) continue;  // the user's, or an earlier group's
    if (setenv(name.c_str(), value.c_str(), 0) != 0) system_failed("setenv", name);
    set += fmt::format(" {}={}", name, value);
  }
  if (group.rank() == 0 && !set.empty())
    log::get("comm").info("ranks take turns on a GPU; set for NCCL:{}", set);
}

}  // namespace trireme
