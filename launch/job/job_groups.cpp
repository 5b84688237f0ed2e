// SPDX-License-Identifier: Apache-2.0
#include "launch/job/job_groups.h"

#include <algorithm>

#include "runtime/comm/nccl.h"

namespace trireme {
namespace {

constexpr double setup_seconds = 60;  // set-up of NCCL

std::unique_ptr<Communicator> world_on(Communicator& host_world, Device& device,
                                       Reproducibility reproducibility) {
  auto world = host_world.split(0, host_world.rank(), "world");
  if (device.type() == DeviceType::cuda)
    world = make_nccl_world(std::move(world), device,
                            {.deadline_seconds = setup_seconds,
                             .repeatable = reproducibility != Reproducibility::fast});
  return world;
}

}  // namespace

std::unique_ptr<Device> make_job_device(const MpiEnvironment& mpi, const Config* config) {
  if (config == nullptr || device_type(*config) == DeviceType::cpu)
    return Device::create(DeviceType::cpu);
  const auto world = mpi.world();
  return Device::create(DeviceType::cuda,
                        device_place(*world, DeviceType::cuda, config->device.share));
}

JobGroups::JobGroups(Communicator& host_world, std::unique_ptr<Device> of_rank,
                     const Config* config, Reproducibility reproducibility)
    : device(std::move(of_rank)),
      world(world_on(host_world, *device, reproducibility)),
      mesh(*world, config != nullptr ? mesh_shape(config->parallel)
                                     : MeshShape{.data = host_world.size()}) {}

std::vector<Communicator*> JobGroups::all() const {
  std::vector<Communicator*> groups{world.get()};
  for (Communicator* const group : {&mesh.tensor(), &mesh.data(), &mesh.pipeline()}) {
    if (group->size() > 1 && group->size() < world->size()) groups.push_back(group);
  }
  std::ranges::copy(mesh.zero_groups(), std::back_inserter(groups));
  return groups;
}

}  // namespace trireme
