// SPDX-License-Identifier: Apache-2.0
// One CUDA thread of an emulated block: a stack that runs until it blocks. Sanitizers are informed
// of every switch; for ThreadSanitizer the fibers of a block are threads ordered only by barriers.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme::emulated {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() call `entry`, which must outlive the run.
  void start(const std::function<void()>& entry);
  // Runs until suspend() or the end of the entry. Called by the thread that made the fiber.
  void resume();
  // Back to the thread that resumed; called on the fiber.
  void suspend();
  [[nodiscard]] bool finished() const { return finished_; }

  // Tells ThreadSanitizer that effects before release(x) are visible after acquire(x).
  static void release(void* point);
  static void acquire(void* point);

 private:
  friend void run_fiber(Fiber* fiber);

  char* stack_ = nullptr;
  void* context_ = nullptr;  // saved stack pointer of the fiber while it is suspended
  void* caller_ = nullptr;   // that of the thread while the fiber runs
  const std::function<void()>* entry_ = nullptr;
  bool finished_ = true;
  void* thread_sanitizer_fiber_ = nullptr;
  void* thread_sanitizer_caller_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace trireme::emulated
