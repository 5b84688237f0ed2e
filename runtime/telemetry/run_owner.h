// SPDX-License-Identifier: Apache-2.0
// One job per run directory. Rank 0 holds an open-file-description lock on RUN/owner.lock while the
// job lives; it ends with the process, however that ends. RUN/owner.json names the holder, with an
// epoch that grows with every start: a job that lost the directory anyway (a server that lost its
// locks, a replaced lock file or directory) finds another name there before it adds a line or
// commits anything, and ends; at most one line may be in flight.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace trireme {

class RunOwner {
 public:
  // Read-only. `patience_seconds`: time for another holder to end. `key`: the setting that names
  // the directory, for messages.
  explicit RunOwner(std::string run_directory, double patience_seconds = 3,
                    std::string key = "run.directory");

  // Before anything is written: takes the lock if an earlier job has left its file. Gives a holder
  // its seconds to end, an earlier start of the same batch job two minutes. Raises
  // ExitCode::config, naming the holder, or saying why locks do not work here.
  void take_if_there();
  // Makes the file if missing, takes the lock and writes owner.json with a new epoch. The directory
  // must exist.
  void take();
  // From 1 on; 0 before take().
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  // Raises ExitCode::config, naming the new owner, if the directory no longer belongs to this job.
  // Costs one stat() while owner.json is unchanged. Thread-safe.
  void require() const;
  // Notes in owner.json that the run came to its end, until the next take().
  void end(std::int64_t step);
  // The step of that end; nothing if there is none.
  [[nodiscard]] static std::optional<std::int64_t> end_of(const std::string& run_directory);
  // Whether a process, on any host whose locks are visible here, holds the run; nothing if the run
  // has no lock or it cannot be tested.
  [[nodiscard]] static std::optional<bool> is_held(const std::string& run_directory);

 private:
  void write_notes();
  void lock(int flags);
  [[nodiscard]] bool try_lock(int flags);
  [[nodiscard]] std::string lock_path() const { return directory_ + "/owner.lock"; }
  [[nodiscard]] std::string notes_path() const { return directory_ + "/owner.json"; }

  std::string directory_;
  double patience_seconds_;  // a job whose launcher was killed ends a moment later
  std::string key_;
  std::int64_t epoch_ = 0;
  std::string notes_;            // of this job, as written
  struct stat notes_status_ {};  // of owner.json then
  FileDescriptor file_;
};

// Whether a file lock also excludes processes on other hosts.

// Why locks below `path`, absolute and without links, are visible only on this host; "" if they are
// visible everywhere. `mounts`: as /proc/self/mountinfo.
[[nodiscard]] std::string why_locks_are_local(std::string_view mounts, std::string_view path);

}  // namespace trireme
