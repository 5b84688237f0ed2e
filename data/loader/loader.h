// SPDX-License-Identifier: Apache-2.0
// Prefetches batches: worker threads pread samples into a ring of host buffers, and the copy stream
// moves them to the device while the compute stream works on the previous batch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "data/loader/batch_memory.h"
#include "data/loader/batch_plan.h"
#include "runtime/nn/batch.h"

namespace trireme {

// Random access: a Loader is made for a plan that starts at any step, so there is no state to save.
// Allocates nothing after construction. Only one thread may call next().
class Loader final : public BatchSource {
 public:
  // `device` and `dataset` must outlive the loader.
  Loader(Device& device, const Dataset& dataset, const BatchPlan& plan,
         const LoaderOptions& options);
  // Stops each worker after its current sample. The compute stream must be done with the batches.
  ~Loader() override;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch of the plan. Work enqueued on `compute` from now on may read it; it stays valid
  // until the `held`-th later call. All calls must use the same streams. Raises the error of a
  // worker that read this batch (ExitCode::data, naming the file), also on every later call.
  [[nodiscard]] const Batch& next(Stream& copy, Stream& compute) override;

  // The data wait: seconds that next() has waited for samples while the compute stream was idle.
  [[nodiscard]] double wait_seconds() const override { return wait_seconds_; }
  [[nodiscard]] ReadWork read_work() const override;

 private:
  struct Slot {
    BatchMemory& host;
    std::unique_ptr<Event> copied;  // the last copy from this buffer
    std::int64_t done = 0;          // finished parts of the batch being read; guarded by mutex_
    std::exception_ptr error{};     // guarded by mutex_
  };
  struct Target {
    BatchMemory& device;
    std::unique_ptr<Event> arrived;
    Batch batch = device.batch;  // as next() returns it
  };

  void work();
  void fill(Slot& slot, std::int64_t batch, std::int64_t part);
  void fill_row(Slot& slot, SampleId id, std::int64_t row) const;
  void cut_sequences(const Batch& batch, std::int64_t number, std::int64_t row) const;
  void separate_documents(const Batch& batch, std::int64_t sample, std::int64_t row) const;
  [[nodiscard]] bool is_ready(std::int64_t batch);
  [[nodiscard]] std::int64_t queued();
  // Blocks until `batch` is complete; raises its error.
  void await(std::int64_t batch);
  void issue(std::int64_t batch, Stream& copy);
  void stop() noexcept;
  [[nodiscard]] Slot& slot_of(std::int64_t batch) {
    return slots_[static_cast<std::size_t>(batch) % slots_.size()];
  }
  [[nodiscard]] Target& target_of(std::int64_t batch) {
    return targets_[static_cast<std::size_t>(batch) % targets_.size()];
  }

  Device& device_;
  const Dataset& dataset_;
  BatchPlan plan_;
  std::optional<BatchRamp> context_;
  std::int64_t parts_;  // pieces per batch, so that several workers share it
  LoaderMemory memory_;
  std::vector<Slot> slots_;
  std::vector<Target> targets_;
  std::unique_ptr<Event> released_;  // the compute stream's work when next() was entered
  std::int64_t next_ = 0;            // batch that the next call returns
  double wait_seconds_ = 0;
  std::atomic<std::int64_t> read_ns_ = 0, computed_ns_ = 0;  // sums over workers

  std::mutex mutex_;
  std::condition_variable room_;   // for workers: a slot is free
  std::condition_variable ready_;  // for next(): a batch is complete or failed
  std::int64_t ticket_ = 0;        // next part to read: batch * parts_ + part; guarded by mutex_
  std::int64_t issued_ = 0;        // batches passed to the copy stream; guarded by mutex_
  bool failed_ = false;            // guarded by mutex_
  bool crowded_ = false;           // a batch had too many documents, which was logged
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trireme
