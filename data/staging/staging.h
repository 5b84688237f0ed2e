// SPDX-License-Identifier: Apache-2.0
// Copies data files to a disk of this host beside a run that reads them.
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

// What `sets` read, in order and each once, as it is now. Raises ExitCode::data for a file that is
// gone.
[[nodiscard]] std::vector<StageSource> stage_sources(std::span<const Dataset* const> sets);

// A thread of low priority, one in each process of the host, that takes pieces of the first files
// until all are there. What it has not finished when it ends stays for the next job.
class Staging {
 public:
  // `directory` has reserved what is to be copied. `job`: as StagedCopy. `reports`: this one says
  // when all is done.
  Staging(StageDirectory directory, std::vector<StageSource> sources, std::uint64_t job,
          bool reports);
  ~Staging();  // within some MB
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Until no file is left to be copied here.
  void wait();

 private:
  void run();
  [[nodiscard]] StagedCopy::State advance_first();
  [[nodiscard]] bool stopping();
  void report(double seconds) const;

  StageDirectory directory_;
  bool reports_;
  std::deque<std::unique_ptr<StagedCopy>> pending_;
  std::vector<std::unique_ptr<StagedCopy>> complete_;  // readers look at what these hold

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false, ended_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
