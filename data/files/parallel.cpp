// SPDX-License-Identifier: Apache-2.0
#include "data/files/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/pack/progress.h"

namespace trireme {

void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  std::size_t first_failure = count;
  std::exception_ptr error;
  // Items are taken in order, so every item before the smallest failing one is processed too.
  const auto run = [&] {
    while (!failed) {
      const std::size_t i = next++;
      if (i >= count) return;
      try {
        stop_if_asked();
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (i < first_failure) {
          first_failure = i;
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> pool;
    for (std::size_t t = 1; t < std::min(threads, count); ++t)
      pool.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

std::size_t usable_cores() {
  constexpr std::size_t most = 16;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most);
}

}  // namespace trireme
