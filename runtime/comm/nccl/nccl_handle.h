// SPDX-License-Identifier: Apache-2.0
// Private to this folder: the owner of one non-blocking ncclComm_t.
//
// Note [The end of a group on NCCL]
// A kernel whose peer is gone spins for ever, and the host may wait for its stream meanwhile. So a
// thread of the process (NcclMonitor) polls all handles for asynchronous errors and ends the
// job, and abort_job() aborts all handles before the process ends, whoever calls it: main with an
// error, the monitor, the watchdog at a deadline. Results of an aborted call are undefined, but
// nobody uses them, because the process ends at once.
//
// Note [Groups share nothing]
// With splitShare NCCL (2.28, 2.30) gives all groups split from one the same connections, proxy
// thread and device stream, and each kernel of a group waits on that stream for the latest of any
// other (enqueue.cc, ncclLaunchPrepare). A pipeline's send would wait behind a receive whose
// message depends on it, and tensor sums behind reductions of gradients. A group's thread blocks
// would be bounded by those of its parent (connect.cc).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/comm/call.h"
#include "runtime/comm/comm_label.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/nccl/nccl_check.h"

namespace trireme {

class NcclHandle {
 public:
  using Lock = std::unique_lock<std::timed_mutex>;

  // Collective over the ranks of `ids`, which are the same on each; blocks the host.
  NcclHandle(std::vector<ncclUniqueId>& ids, int ranks, int rank, std::string name,
             std::shared_ptr<const NcclOptions> options);
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  // Collective; blocks the host. A rank outside all groups passes no color and gets null.
  [[nodiscard]] std::unique_ptr<NcclHandle> split(std::optional<int> color, int key,
                                                  std::string name, CommRole role);

  // Runs enqueue(ncclComm_t) as one NCCL group and returns when its kernel is on the stream.
  // Messages name the group by `call`.
  template <typename F>
  void issue(const Call& call, F&& enqueue) {
    Lock lock(mutex_);
    begin(call);
    try {
      GroupScope group;
      std::forward<F>(enqueue)(comm_);
      group.end();
    } catch (const Error& error) {
      raise(error);
    }
    await_ready(lock);
  }

  // For the monitor: NCCL's asynchronous error, if nobody has raised it yet.
  [[nodiscard]] std::optional<std::string> asynchronous_error();
  // Aborts the work on the GPU, from any thread. Later calls raise.
  void abort() noexcept;

 private:
  // Closes the NCCL group even if an error is raised between ncclGroupStart and ncclGroupEnd.
  class GroupScope {
   public:
    GroupScope() { TRIREME_NCCL(ncclGroupStart()); }
    ~GroupScope() {
      if (!ended_) static_cast<void>(ncclGroupEnd());
    }
    GroupScope(const GroupScope&) = delete;
    GroupScope& operator=(const GroupScope&) = delete;
    void end() {
      ended_ = true;
      TRIREME_NCCL(ncclGroupEnd());
    }

   private:
    bool ended_ = false;
  };

  NcclHandle(std::string name, CommRole role, std::shared_ptr<const NcclOptions> options);
  [[nodiscard]] ncclConfig_t config() const;
  void begin(const Call& call);
  void await_ready(Lock& lock);
  void expect_usable() const;
  void abort_locked() noexcept;
  [[nodiscard]] std::string where() const;
  [[noreturn]] void raise(const Error& error) const;

  std::string name_;
  CommRole role_;
  std::shared_ptr<const NcclOptions> options_;
  // Guards all members below. Never held while waiting, so the monitor and abort() get it soon.
  std::timed_mutex mutex_;
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
  std::uint64_t calls_ = 0;  // NCCL groups so far
  Call last_;                // the latest call, if any
  CommLabel label_;
};

// the thread that looks at all NCCL communicators of the process. See Note
// [The end of a group on NCCL].
class NcclHandle;

class NcclMonitor {
 public:
  // Thread-safe. The thread lives while there are handles.
  static void add(NcclHandle& handle);
  static void remove(NcclHandle& handle);
};

}  // namespace trireme
