// SPDX-License-Identifier: Apache-2.0
// Time that this process waits for each data file, and chunks that it decodes twice.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

// For one file; one object per process and file. Thread-safe.
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

// The open file with the longest reads since the last call; nothing if none was read.
[[nodiscard]] std::optional<SlowFile> slowest_file();

// Chunks decoded into the cache for other samples.
struct DecodedChunks {
  std::uint64_t count = 0, again = 0;  // again: of these, decoded before
  std::uint64_t bytes = 0;             // to cache all chunks of their data sets
  DecodedChunks& operator+=(const DecodedChunks& more) {
    count += more.count, again += more.again, bytes += more.bytes;
    return *this;
  }
};

// A number by which other processes of the job know a path; the same in all of them.
[[nodiscard]] std::uint64_t number_of_path(const std::string& path);
// For paths that this process has opened; "" otherwise.
[[nodiscard]] std::string path_of_number(std::uint64_t number);

}  // namespace trireme
