// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/nccl.h"

namespace trireme {
namespace {

// NCCL compares the GPUs of ranks on one host, so each rank is made a host of its own. Shared
// memory and peer access then do not apply; messages go through sockets, on one host those of the
// loopback interface. Ranks take turns on the GPU: few and simple thread blocks keep a turn short,
// and modules that load while a kernel waits for its peer would deadlock.
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
      {"NCCL_RAS_ENABLE", "0"},
      {"CUDA_MODULE_LOADING", "EAGER"}};
  if (one_host) result.emplace_back("NCCL_SOCKET_IFNAME", "lo");
  return result;
}

}  // namespace

void set_shared_gpu_environment(int rank, bool one_host) {
  static std::once_flag once;
  std::call_once(once, [rank, one_host] {
    std::string set;
    for (const auto& [name, value] : settings(rank, one_host)) {
      if (std::getenv(name.c_str()) != nullptr) continue;  // the user knows better
      if (setenv(name.c_str(), value.c_str(), 0) != 0) system_failed("setenv", name);
      set += fmt::format(" {}={}", name, value);
    }
    if (rank == 0 && !set.empty()) {
      log::get("comm").info("device.share: several ranks on one GPU, set for NCCL:{}", set);
    }
  });
}

}  // namespace trireme
