// SPDX-License-Identifier: Apache-2.0
// The engine's calls that order streams, by call site, and runs without one of them: the call is
// made, but the clocks ignore it. Such a run must end with a report.
//   TRIREME_EMULATED_SITES=FILE      appends a line per site at the end: call, offset in the
//                                    program, that of its caller, number of calls, number that
//                                    changed a clock (a record: through a wait)
//   TRIREME_EMULATED_DROP=OFFSET,... the sites to ignore; OFFSET:OFFSET with that caller only
#pragma once

#include <atomic>

namespace trireme::emulated::order {

enum class Call { record, wait, event_synchronize, stream_synchronize };

struct Site {
  bool dropped = false;
  std::atomic<long> times = 0, told = 0;
};
// `within`: the return address of the runtime's function, which the device module calls.
[[nodiscard]] Site& site_of(Call call, const void* within);

}  // namespace trireme::emulated::order
