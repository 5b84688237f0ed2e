// SPDX-License-Identifier: Apache-2.0
// One job per run directory. Rank 0 holds an open-file-description lock on RUN/owner.lock as long
// as the job lives: it ends with the process, however that ends. RUN/owner.json says who holds it,
// and has an epoch that grows with every start: a job that lost the directory all the same (a
// server that forgot its locks, a lock file or directory that was replaced) finds another's name
// there before it adds a line or commits anything, and ends; no more than one line may be on its
// way.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

class RunOwner {
 public:
  // Touches nothing. `patience_seconds`: that another holder gets to end. `key`: what messages call
  // the setting that names the directory.
  explicit RunOwner(std::string run_directory, double patience_seconds = 3,
                    std::string key = "run.directory");

  // Before anything may be written: takes the lock where an earlier job has left its file. A holder
  // gets its seconds to end, an earlier start of the same batch job two minutes. Raises
  // ExitCode::config, naming the holder, or saying why there are no locks in this place.
  void take_if_there();
  // Makes the file where there is none, takes the lock and writes owner.json with a new epoch. The
  // directory must be there.
  void take();
  // From 1 on; 0 before take().
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  // Raises ExitCode::config, naming the new owner, where the directory is no longer this job's.
  // Costs one stat() as long as nobody touches owner.json. From any thread.
  void require() const;
  // Whether some process, of any host whose locks are seen here, holds the run; nothing where the
  // run has no lock or it cannot be asked for.
  [[nodiscard]] static std::optional<bool> is_held(const std::string& run_directory);

 private:
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

}  // namespace trireme
