// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/engine/session.h"

namespace trireme {

// `given` with the fastest layout that fits, for the ranks of this job (parallel.search): rank 0
// searches and logs what it chose, all take it. Not resolved; parallel.search is false in it, so
// that the config that a run leaves replays the same layout. Collective. Raises ExitCode::config
// without parallel.hardware, where that describes another kind of device, or where nothing fits.
[[nodiscard]] Config choose_layout(const RankProcess& process, const Config& given,
                                   const Provenance& where);

}  // namespace trireme
