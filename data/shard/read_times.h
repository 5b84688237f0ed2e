// SPDX-License-Identifier: Apache-2.0
// How long this process waits for each file that samples are read from, and what it decodes twice.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

// Of one file; the same object for all of this process who ask for it. Any number of threads.
class ReadTimes {
 public:
  [[nodiscard]] static std::shared_ptr<ReadTimes> of(const std::string& path);

  void add(std::chrono::steady_clock::duration time, std::uint64_t bytes) {
    nanoseconds_.fetch_add(static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count()),
                           std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  friend std::optional<struct SlowFile> slowest_file();
  std::atomic<std::uint64_t> nanoseconds_ = 0, bytes_ = 0;
};

struct SlowFile {
  std::string path;
  double seconds = 0;  // in reads, of all threads together
  std::uint64_t bytes = 0;
};

// Of the files that are open that whose reads took longest since the last call; nothing where none
// was read from.
[[nodiscard]] std::optional<SlowFile> slowest_file();

// Chunks that were decoded to be kept for other samples.
struct DecodedChunks {
  std::uint64_t count = 0, again = 0;  // again: of these, had been decoded before
  std::uint64_t bytes = 0;             // that keeping all chunks of their data sets takes
  DecodedChunks& operator+=(const DecodedChunks& more) {
    count += more.count, again += more.again, bytes += more.bytes;
    return *this;
  }
};

// By which another process of the job knows a path: the same in all of them.
[[nodiscard]] std::uint64_t number_of_path(const std::string& path);
// Of the paths that this process has opened; "" where it is none of them.
[[nodiscard]] std::string path_of_number(std::uint64_t number);

}  // namespace trireme
