// SPDX-License-Identifier: Apache-2.0
// Copies data files to a disk of this host while a run reads them.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/sets/dataset.h"
#include "data/staging/staged_copy.h"

namespace trireme {

// The files of `sets`, in order, each once, with their current state. Raises ExitCode::data if a
// file is gone.
[[nodiscard]] std::vector<StageSource> stage_sources(std::span<const Dataset* const> sets);

// A low-priority thread, one per process of the host, that copies pieces of the first files until
// all are complete. Unfinished work is left for the next job.
class Staging {
 public:
  // `directory` has reserved the space. `job`: as in StagedCopy. `reports`: this process logs the
  // end.
  Staging(StageDirectory directory, std::vector<StageSource> sources, std::uint64_t job,
          bool reports);
  ~Staging();  // stops within some MB
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Waits until no file is left to copy here.
  void wait();

 private:
  void run();
  [[nodiscard]] StagedCopy::State advance_first();
  [[nodiscard]] bool stopping();
  void report(double seconds) const;

  StageDirectory directory_;
  bool reports_;
  std::deque<std::unique_ptr<StagedCopy>> pending_;
  std::vector<std::unique_ptr<StagedCopy>> complete_;  // keeps the copies that readers use

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false, ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
