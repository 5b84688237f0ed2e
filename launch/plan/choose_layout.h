// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/engine/session.h"
#include "runtime/config/config.h"
#include "runtime/device/device.h"

namespace trireme {

// `given` with the fastest layout that fits the ranks of this job (parallel.search): rank 0
// searches and logs its choice for all ranks. Not resolved; sets parallel.search to false, so that
// the run's config reproduces the layout. Collective. Raises ExitCode::config without
// parallel.hardware, if that describes another kind of device, or if nothing fits.
[[nodiscard]] Config choose_layout(const RankProcess& process, const Config& given,
                                   const Provenance& where);

// Settings that would make a failed allocation fit, judged by its role: "; train.micro_batch: 4
// would fit (now 16), ...". Later allocations may need more.
[[nodiscard]] std::string memory_advice(const Config& config, const OutOfMemory& lack);

}  // namespace trireme
