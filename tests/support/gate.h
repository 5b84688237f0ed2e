// SPDX-License-Identifier: Apache-2.0
// Blocks a stream's worker until the test opens it.
#pragma once

#include <condition_variable>
#include <mutex>

namespace trireme::test {

class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

}  // namespace trireme::test
