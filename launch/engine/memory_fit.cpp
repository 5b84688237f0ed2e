// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/memory_fit.h"

#include <algorithm>
#include <vector>

#include "launch/engine/options.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/environment.h"
#include "runtime/telemetry/host.h"

namespace trireme {
namespace {

using plan::MeshAxis;
using plan::NcclTraffic;

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / (std::uint64_t{1} << 30);
}

// Who shares this rank's host and GPU, and how NCCL reaches the others.
struct Neighbours {
  std::vector<std::string> hosts;  // of all ranks
  int on_host = 0, on_gpu = 0;     // this rank included
  std::optional<DeviceMemory> gpu;
  NcclPlace place{};
};

Neighbours neighbours_of(Communicator& world, const Device& device, const Config& config) {
  Neighbours here{.hosts = gather_texts(world, host_name()), .gpu = device.memory()};
  const std::string gpu = here.gpu ? here.gpu->gpu : "", host = host_name();
  const auto gpus = gather_texts(world, gpu);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    here.on_host += here.hosts[i] == host ? 1 : 0;
    here.on_gpu += here.hosts[i] == host && gpus[i] == gpu ? 1 : 0;
  }
  if (here.gpu) here.place = nccl_place(config, cuda_facts(), here.on_host, here.on_gpu > 1);
  return here;
}

// Over the ranks of this host.
std::uint64_t sum_of_host(Communicator& world, const std::vector<std::string>& hosts,
                          std::uint64_t own) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(world.size()));
  const HostStream stream;
  world.all_gather(*stream, {reinterpret_cast<std::byte*>(&own), DType::u64, Shape{1}},
                   {reinterpret_cast<std::byte*>(all.data()), DType::u64, Shape{world.size()}});
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    sum += hosts[i] == host_name() ? all[i] : 0;
  return sum;
}

std::uint64_t host_limit() {
  const HostMemory memory = host_memory();
  return memory.limit_bytes > 0 ? std::min(memory.limit_bytes, memory.total_bytes)
                                : memory.total_bytes;
}

std::string way_out_of_nccl(const Config& config, const MemoryNeed& need, const NcclPlace& place) {
  constexpr std::int64_t few = 8;
  Config capped = config;
  capped.comm.max_ctas = few;
  const std::uint64_t less = nccl_memory_of(capped, place, /*training=*/true).device;
  if (less >= need.nccl.device) return {};
  return fmt::format("; comm.max_ctas: {} (now {}) lowers NCCL's {:.2f} GiB to {:.2f}", few,
                     config.comm.max_ctas, gib(need.nccl.device), gib(less));
}

void require_device(const Config& config, const MemoryNeed& need, const Neighbours& here) {
  const DeviceMemory& gpu = *here.gpu;
  const auto ranks = static_cast<std::uint64_t>(here.on_gpu);
  const std::uint64_t share = (ranks > 1 ? gpu.total : gpu.free) / ranks;
  if (need.device() <= share) return;
  const BytesByRole held = need.held.on_device(need.type);
  std::uint64_t taken = need.nccl.device;
  std::size_t role = static_cast<std::size_t>(MemoryRole::workspace);
  const bool by_nccl = taken > share;
  for (const MemoryRole each :
       {MemoryRole::workspace, MemoryRole::parameters, MemoryRole::gradients, MemoryRole::optimizer,
        MemoryRole::activations, MemoryRole::staging, MemoryRole::other}) {
    role = static_cast<std::size_t>(each);
    if (taken + held[role] > share) break;
    taken += held[role];
  }
  throw OutOfMemory(
      fmt::format("the plan does not fit: a rank needs {:.2f} GiB on GPU {} of {} ({}), which has "
                  "{:.2f} of {:.2f} GiB free{}: {} overflow{}",
                  gib(need.device()), gpu.gpu, host_name(), need.to_string(), gib(gpu.free),
                  gib(gpu.total), ranks > 1 ? fmt::format(" and {} ranks", ranks) : "",
                  by_nccl ? "NCCL's buffers" : name_of(static_cast<MemoryRole>(role)),
                  way_out_of_nccl(config, need, here.place)),
      static_cast<MemoryRole>(role), std::max<std::uint64_t>(1, held[role]),
      share - std::min(share, taken), ExitCode::config);
}

void require_host(std::uint64_t needed, int ranks, const MemoryNeed& need) {
  const std::uint64_t there = host_limit();
  if (there == 0 || needed <= there) return;
  const bool gpu = need.type == DeviceType::cuda;
  fail(ExitCode::config,
       "the plan does not fit: {} rank{} need{} {:.1f} GiB{} on {}, which may use {:.1f} GiB; {}{}",
       ranks, ranks == 1 ? "" : "s", ranks == 1 ? "s" : "", gib(needed),
       need.held.memory_checkpoint > 0 ? ", in-memory checkpoints included,"
       : gpu                           ? " of page-locked memory"
                                       : "",
       host_name(), gib(there),
       gpu ? "it holds copies of checkpoints (a part from every data rank) and the loader's "
             "batches: start fewer ranks on each host, lower data.prefetch, or write no "
             "checkpoints (checkpoint.every_steps: 0)"
           : "lower train.micro_batch, use train.recompute: full, raise parallel.zero, tensor or "
             "pipeline, or start fewer ranks on each host",
       need.held.memory_checkpoint > 0 ? "; or set checkpoint.in_memory_every_steps: 0" : "");
}

}  // namespace

NcclPlace nccl_place(const Config& config, const CudaFacts& facts, int ranks_here, bool shared) {
  NcclPlace place{.links = {.domain = ranks_here, .rails = ranks_here}};
  if (shared) {
    place.links = {.domain = 1, .rails = 1};
    place.direct = false;
    return place;
  }
  const auto is_nvlink = [](const std::string& link) { return link == "NVLink"; };
  const bool nvlink = !facts.gpus.empty() && std::ranges::any_of(facts.gpus[0].links, is_nvlink);
  place.links.inside.bandwidth = nvlink ? plan::slowest_nvlink : 0;
  place.nvls = config.reproducibility == Reproducibility::fast && !facts.gpus.empty() &&
               facts.gpus[0].capability >= 90;
  return place;
}

plan::NcclMemory nccl_memory_of(const Config& config, const NcclPlace& place, bool training) {
  const MeshShape mesh = mesh_shape(config.parallel);
  if (device_type(config) == DeviceType::cpu || mesh.size() == 1) return {};
  const bool ordered = config.reproducibility == Reproducibility::layout;
  const CtaLimits ctas = cta_limits(config);
  const auto group = [&](MeshAxis axis, NcclTraffic traffic, CommRole role) {
    return plan::nccl_memory({.span = plan::span_of(axis, mesh, place.links),
                              .traffic = traffic,
                              .min_ctas = ctas.least,
                              .max_ctas = ctas.most_of(role),
                              .nvls = place.nvls,
                              .direct = place.direct},
                             place.links);
  };
  const NcclTraffic sums = ordered ? NcclTraffic::exchange : NcclTraffic::sums;
  plan::NcclMemory memory = group(MeshAxis::tensor, sums, CommRole::tensor);
  if (training) {
    const bool rounded = reduced_dtype(config) != DType::f32;  // parallel/rounded_sum.h
    const NcclTraffic reduced = rounded ? NcclTraffic::exchange : sums;
    memory += group(MeshAxis::data, reduced, CommRole::data);
    if (mesh.shard > 1) memory += group(MeshAxis::zero, NcclTraffic::gathers, CommRole::gather);
    if (mesh.shard > 1 && mesh.shard < mesh.data) {
      memory += group(MeshAxis::zero, reduced, CommRole::data);
      memory += group(MeshAxis::replicas, reduced, CommRole::data);
    }
    memory += group(MeshAxis::context, sums, CommRole::tensor);
    if (mesh.expert > 1) {
      memory += group(MeshAxis::experts, NcclTraffic::exchange, CommRole::tensor);
      memory += group(MeshAxis::expert_zero, reduced, CommRole::data);
      memory += group(MeshAxis::expert_zero, NcclTraffic::gathers, CommRole::gather);
      memory += group(MeshAxis::expert_replicas, reduced, CommRole::data);
    }
  }
  // Losses and tied weights; then the links, at a stage between two others.
  memory += group(MeshAxis::pipeline, sums, CommRole::control);
  const int directions = training ? 2 : 1;
  for (int i = 0; i < directions * (mesh.pipeline > 1 ? 1 : 0); ++i) {
    memory += group(MeshAxis::pipeline, NcclTraffic::send, CommRole::link);
    memory += group(MeshAxis::pipeline, NcclTraffic::receive, CommRole::link);
  }
  return memory;
}

std::uint64_t MemoryNeed::device() const {
  return type == DeviceType::cuda ? total_of(held.on_device(type)) + nccl.device : 0;
}

std::uint64_t MemoryNeed::host() const {
  return type == DeviceType::cuda ? total_of(held.host) + nccl.host
                                  : total_of(held.on_device(type));
}

std::string MemoryNeed::to_string() const {
  std::string text;
  const BytesByRole by_role = held.on_device(type);
  for (std::size_t i = 0; i < memory_roles; ++i) {
    if (by_role[i] > 0)
      text += fmt::format("{} {:.2f} GiB, ", name_of(static_cast<MemoryRole>(i)), gib(by_role[i]));
  }
  return text + fmt::format("NCCL {:.2f} GiB", gib(nccl.device));
}

MemoryNeed plan_need(const Config& config, int rank, const NcclPlace& place, const OwnModel* own) {
  return {.type = device_type(config),
          .held = plan_memory(config, rank, own),
          .nccl = nccl_memory_of(config, place, /*training=*/true)};
}

MemoryNeed require_fit(Communicator& world, const Device& device, const Config& config,
                       const OwnModel* own) {
  const Neighbours here = neighbours_of(world, device, config);
  const MemoryNeed need = plan_need(config, world.rank(), here.place, own);
  const bool several_hosts = here.on_host < world.size();
  const std::uint64_t on_host =
      sum_of_host(world, here.hosts, need.host() + need.held.memory_checkpoints(several_hosts));
  if (here.gpu) require_device(config, need, here);
  require_host(on_host, here.on_host, need);
  return need;
}

void log_memory_use(Communicator& world, const Device& device, const MemoryNeed& need) {
  const auto hosts = gather_texts(world, host_name());
  const std::optional<DeviceMemory> gpu = device.memory();
  const std::uint64_t resident = peak_resident_bytes();
  const std::uint64_t used = gpu ? gpu->total - gpu->free : 0;
  std::array<std::int64_t, 6> most{};
  const std::array<std::uint64_t, 6> own_bytes{need.device(),
                                               need.nccl.device,
                                               used,
                                               sum_of_host(world, hosts, need.host()),
                                               sum_of_host(world, hosts, resident),
                                               resident};
  std::ranges::copy(own_bytes, most.begin());
  most = largest_of_any_rank(world, most);
  if (world.rank() != 0) return;
  const auto mib = [&](std::size_t i) { return static_cast<double>(most[i]) / 0x1p20; };
  if (gpu)
    log::get("train").debug(
        "GPU memory at most, planned / measured: {:.1f} MiB ({:.1f} of it NCCL's) / {:.1f} MiB by "
        "the driver, which counts CUDA, its libraries and other processes too",
        mib(0), mib(1), mib(2));
  log::get("train").debug(
      "resident memory of a rank at most {:.1f} MiB, program and libraries included; of a host's "
      "ranks, planned{} / measured: {:.1f} / {:.1f} MiB",
      mib(5), gpu ? " page-locked" : "", mib(3), mib(4));
}

}  // namespace trireme
