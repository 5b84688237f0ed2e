// SPDX-License-Identifier: Apache-2.0
// The Watched decorator: a deadline on every wait for other ranks. A call that is not over within
// the deadline ends the whole job with ExitCode::communication and a message that names rank,
// group, call, number, tensor, step and who is late; every rank that can writes its last calls to
// <directory>/collectives.rank<R>.txt first. See README.md.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

struct WatchOptions {
  double deadline_seconds = 0;  // 0: off
  std::string directory;        // of the dumps, made when needed; empty: no dumps
};

// `inner` is the world group of a job on MPI: every rank makes it, alike. Groups split from it are
// watched too. With one rank or no deadline it gives back `inner` itself.
[[nodiscard]] std::unique_ptr<Communicator> make_watched(std::unique_ptr<Communicator> inner,
                                                         const WatchOptions& options);

// The watchdog of this process as long as somebody holds it, for steps where no group is watched: a
// world of one. Null without a deadline. Collective over the job.
[[nodiscard]] std::shared_ptr<void> keep_watchdog(const WatchOptions& options);

// Makes the watchdog write the dump of this rank soon; the run goes on. Async-signal-safe.
void request_collectives_dump() noexcept;
// The same within a step, and from now on no wait of a step may last long: for a handler of SIGTERM
// that lets the run come to an end by itself, since launchers also send SIGTERM to the peers of a
// rank that has died. The dump goes when the run has ended well. Where SIGTERM has no handler, the
// watchdog dumps and lets the signal end the process.
void hurry_watched_waits() noexcept;

}  // namespace trireme
