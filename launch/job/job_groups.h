// SPDX-License-Identifier: Apache-2.0
// The process groups of a job without a model, on training's device: for commands that measure
// them.
#pragma once

#include <memory>
#include <vector>

#include "launch/engine/session.h"

namespace trireme {

// This rank's device for a resolved config; without one (null) the CPU. Raises the errors of
// Device::create.
[[nodiscard]] std::unique_ptr<Device> make_job_device(const MpiEnvironment& mpi,
                                                      const Config* config);

struct JobGroups {
  // Groups of a resolved config's mesh; null: all ranks are data-parallel. NCCL works as in
  // training with this reproducibility. `host_world` is watched, and must outlive this. Collective.
  JobGroups(Communicator& host_world, std::unique_ptr<Device> of_rank, const Config* config,
            Reproducibility reproducibility);

  // The world, and the mesh's groups with several but not all ranks, ZeRO's included.
  [[nodiscard]] std::vector<Communicator*> all() const;

  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> world;
  ProcessMesh mesh;
};

}  // namespace trireme
