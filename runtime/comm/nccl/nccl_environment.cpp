// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/device/cuda/cuda_device.h"

namespace trireme {
namespace {

// The GPU's bus address: device numbers differ between processes.
std::string gpu_address(Device& device) {
  std::array<char, 32> bus{};
  TRIREME_CUDA(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()),
                                     CudaDevice::of(device).index()));
  return bus.data();
}

// NCCL compares the GPUs of ranks on a host, so each rank is declared a host of its own. That
// disables shared memory and peer access: messages use sockets, on one host those of the loopback
// interface. Ranks take turns on the GPU: few, simple thread blocks keep turns short.
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

void require_repeatable_sums() {
  constexpr const char* nvls = "NCCL_NVLS_ENABLE";
  const char* const set = std::getenv(nvls);
  if (set != nullptr && std::string_view(set) != "0") {
    fail(ExitCode::config,
         "{}={} in the environment: NVLink SHARP adds in another order in each call; unset it, or "
         "use reproducibility: fast",
         nvls, set);
  }
  if (setenv(nvls, "0", 1) != 0) system_failed("setenv", nvls);
}

void warn_of_cta_variables() {
  for (const char* const name :
       {"NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}) {
    if (const char* const value = std::getenv(name); value != nullptr)
      log::get("comm").warn(
          "{}={} in the environment overrides the thread blocks of comm.*, but matmuls leave room "
          "for the latter; unset it",
          name, value);
  }
}

void prepare_for_shared_gpus(Communicator& group, Device& device, bool may_share) {
  const std::vector<std::string> hosts = gather_texts(group, host_name());
  const std::vector<std::string> gpus =
      gather_texts(group, host_name() + " " + gpu_address(device));
  const std::vector<std::string> ids =
      gather_texts(group, host_name() + " " + gpu_id(CudaDevice::of(device).index()));
  const auto twice = [](std::vector<std::string> texts) {
    std::ranges::sort(texts);
    const auto found = std::ranges::adjacent_find(texts);
    return found == texts.end() ? std::string() : *found;
  };
  const std::string shared = twice(gpus);
  if (shared.empty()) return;
  if (!may_share && twice(ids).empty()) {
    fail(ExitCode::config,
         "device.type: cuda: several ranks have slices of one GPU (MIG; host and address: {}), "
         "which NCCL refuses as a duplicate: it compares PCI addresses; use the GPU as a whole, "
         "give the ranks slices of different GPUs, or set device.share: true, which sends messages "
         "through sockets",
         shared);
  }
  if (!may_share) {
    fail(ExitCode::config,
         "device.type: cuda: several ranks have the same GPU (host and address: {}); give each "
         "rank its own (CUDA_VISIBLE_DEVICES), or set device.share: true to let ranks take turns "
         "on a GPU",
         shared);
  }
  const bool one_host =
      std::ranges::all_of(hosts, [&](const std::string& host) { return host == hosts[0]; });
  std::string set;
  for (const auto& [name, value] : settings(group.rank(), one_host)) {
    if (std::getenv(name.c_str()) != nullptr) continue;  // set by the user or an earlier group
    if (setenv(name.c_str(), value.c_str(), 0) != 0) system_failed("setenv", name);
    set += fmt::format(" {}={}", name, value);
  }
  if (group.rank() == 0 && !set.empty())
    log::get("comm").info("ranks take turns on a GPU; set for NCCL:{}", set);
}

}  // namespace trireme
