// SPDX-License-Identifier: Apache-2.0
// CPU streams. Back-end code (ops, comm) puts host work on one with enqueue(stream, task):
//   compute        runs the task inline on the calling thread; exceptions reach the caller at once
//   comm and copy  run it on the stream's worker thread, in order; stream_core.h has the failures
// A task is a callable of at most 240 bytes, stored in place. Several threads may enqueue on one
// stream.
#pragma once

#include <memory>
#include <thread>
#include <utility>

#include "runtime/device/cpu/stream_core.h"
#include "runtime/device/device.h"

namespace trireme {

class CpuStream final : public Stream {
 public:
  CpuStream(Device& device, StreamKind kind);
  // Finishes queued work; during unwinding skips it, because the peers of a collective may be gone.
  ~CpuStream() override;

  // Casts to CpuStream; another back end's stream is a contract error.
  [[nodiscard]] static CpuStream& of(Stream& stream);

  void record(Event& event) override;
  void wait(Event& event) override;
  void synchronize() override;
  [[nodiscard]] StreamKind kind() const override { return kind_; }
  [[nodiscard]] Device& device() const override { return device_; }

  template <typename F>
  void enqueue(F&& task) {
    if (core_ == nullptr) {
      std::forward<F>(task)();
    } else {
      core_->push(std::forward<F>(task));
    }
  }
  // Null for a compute stream.
  [[nodiscard]] const std::shared_ptr<StreamCore>& core() const { return core_; }

 private:
  Device& device_;
  StreamKind kind_;
  std::shared_ptr<StreamCore> core_;  // shared with the events recorded here, which may outlive it
  std::thread worker_;
};

template <typename F>
void enqueue(Stream& stream, F&& task) {
  CpuStream::of(stream).enqueue(std::forward<F>(task));
}

// True inside a task while another thread waits for its stream.
[[nodiscard]] inline bool stream_awaited() noexcept {
  return StreamCore::current_awaited();
}

// True inside a task whose stream is being destroyed by unwinding: tasks that poll for a peer then
// give up.
[[nodiscard]] inline bool stream_cancelled() noexcept {
  return StreamCore::current_cancelled();
}

}  // namespace trireme
