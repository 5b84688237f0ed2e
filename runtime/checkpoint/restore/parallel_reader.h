// SPDX-License-Identifier: Apache-2.0
// Reads with several threads per rank, because one thread cannot saturate a disk array or the
// memory. Private to this module.
#pragma once

#include <functional>
#include <vector>

#include "runtime/checkpoint/files/stored_values.h"

namespace trireme {

inline constexpr int reading_threads = 4;

// Runs work(0) ... work(count - 1), each on its own thread, the first on this one. Returns when all
// have ended; raises the error of the lowest-numbered failure.
void run_in_parallel(int count, const std::function<void(int)>& work);

class ParallelReader {
 public:
  explicit ParallelReader(const StoredValues& values) {
    for (int i = 0; i < reading_threads; ++i)
      readers_.emplace_back(values);
  }
  // Like StoredReader::read.
  void read(const StoredTensor& tensor, const StoredRange& range, float* to);
  [[nodiscard]] std::uint64_t bytes_read() const;

 private:
  std::vector<StoredReader> readers_;
};

}  // namespace trireme
