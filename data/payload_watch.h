// SPDX-License-Identifier: Apache-2.0
// Checks a data set beside its use: all bytes against their checksums once, all files for changes.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/sets/dataset.h"
#include "data/shard/file_stamp.h"

namespace trireme {

struct PayloadWatchOptions {
  // This watch reads shards rank, rank + ranks, ...
  std::size_t rank = 0;
  std::size_t ranks = 1;
  // The share of one core that it may use.
  double share = 0.05;
  // Time between checks of the files, once all are verified.
  std::chrono::milliseconds interval{10'000};
  // finish() waits for no more than this.
  std::uint64_t last_bytes = std::uint64_t{256} << 20;
};

// A thread of the lowest priority reads each of its shards once, like `trireme data inspect
// --verify`; of shards with block checksums only what the data set's readers have not verified.
// Then it checks the files' sizes, inodes and times of change. A changed file is verified again:
// the same content with a new time is accepted.
class PayloadWatch {
 public:
  // The shards' paths are read again; `data` need not be kept.
  PayloadWatch(const Dataset& data, const PayloadWatchOptions& options);
  ~PayloadWatch();  // stops within a block of some MB
  PayloadWatch(const PayloadWatch&) = delete;
  PayloadWatch& operator=(const PayloadWatch&) = delete;

  // Raises ExitCode::data for a problem that the thread has found. As cheap as a load.
  void check() const;
  // Verifies the rest if it is small, checks every file once more, and ends the thread; then as
  // check(). Returns the number of verified shards.
  std::size_t finish();
  [[nodiscard]] std::size_t shards() const { return shards_.size(); }

 private:
  struct Stopped {};
  enum class Order : std::uint8_t { go_on, finish, stop };

  // Empty if the file system gives no answer.
  [[nodiscard]] static std::optional<FileStamp> stamp_of(const std::string& path);
  void run();
  void verify_all();
  void look();
  void verify_changed(std::size_t index);
  [[nodiscard]] Order pace();  // raises Stopped
  [[nodiscard]] Order wait(std::chrono::duration<double> time);
  void give(Order order);

  PayloadWatchOptions options_;
  std::vector<Shard> shards_;
  std::vector<std::optional<FileStamp>> stamps_;
  std::uint64_t left_ = 0;    // bytes not yet verified
  std::size_t verified_ = 0;  // shards; read after the thread has ended
  std::chrono::steady_clock::time_point block_start_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;  // set before failed_

  std::mutex mutex_;
  std::condition_variable changed_;
  Order order_ = Order::go_on;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace trireme
