// SPDX-License-Identifier: Apache-2.0
// The engine's calls that order streams, by where they are made, and runs without one of them: it
// is carried out, but the clocks do not learn of it. Such a run must end with a report.
//   TRIREME_EMULATED_SITES=FILE      appends a line per place at the end: call, offset in the
//                                    program, that of its caller, how often, how often it told a
//                                    clock something (a record: through a wait)
//   TRIREME_EMULATED_DROP=OFFSET,... the places to leave out; OFFSET:OFFSET with that caller only
#pragma once

#include <atomic>

namespace trireme::emulated::order {

enum class Call { record, wait, event_synchronize, stream_synchronize };

struct Site {
  bool dropped = false;
  std::atomic<long> times = 0, told = 0;
};
// `within`: the return address of the runtime's function, which the device room calls.
[[nodiscard]] Site& site_of(Call call, const void* within);

}  // namespace trireme::emulated::order
