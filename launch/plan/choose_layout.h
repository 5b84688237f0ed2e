// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/engine/session.h"

namespace trireme {

// `given` with the fastest layout that fits the ranks of this job (parallel.search): rank 0
// searches and logs its choice for all ranks. Not resolved; sets parallel.search to false, so that
// the run's config reproduces the layout. Collective. Raises ExitCode::config without
// parallel.hardware, if that describes another kind of device, or if nothing fits.
[[nodiscard]] Config choose_layout(const RankProcess& process, const Config& given,
                                   const Provenance& where);

}  // namespace trireme
