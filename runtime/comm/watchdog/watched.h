// SPDX-License-Identifier: Apache-2.0
// The Watched decorator: a deadline on every wait for other ranks. A call that misses it ends the
// whole job with ExitCode::communication and a message that names rank, group, call, number,
// tensor, step and who is late. Every rank that can first writes its last calls to
// <directory>/collectives.rank<R>.txt. See README.md.
#pragma once

#include <memory>
#include <string>

#include "runtime/comm/communicator.h"

namespace trireme {

struct WatchOptions {
  double deadline_seconds = 0;  // 0: off
  std::string directory;        // for dumps, created on demand; empty: no dumps
};

// `inner` is the world group of a job on MPI; every rank calls this with equal options. Groups
// split from it are watched too. With one rank or no deadline it returns `inner` itself.
[[nodiscard]] std::unique_ptr<Communicator> make_watched(std::unique_ptr<Communicator> inner,
                                                         const WatchOptions& options);

// Keeps the watchdog of this process alive while somebody holds it, for steps without a watched
// group (a world of one). Null without a deadline. Collective over the job.
[[nodiscard]] std::shared_ptr<void> keep_watchdog(const WatchOptions& options);

// Makes the watchdog write this rank's dump soon; the run continues. Async-signal-safe.
void request_collectives_dump() noexcept;
// The same within a step; afterwards no wait in a step may last long. For a SIGTERM handler that
// lets the run end by itself, since launchers also send SIGTERM to the peers of a dead rank. The
// dump is deleted if the run ends well. If SIGTERM has no handler, the watchdog dumps and lets the
// signal end the process.
void hurry_watched_waits() noexcept;

}  // namespace trireme
