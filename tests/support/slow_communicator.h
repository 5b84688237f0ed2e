// SPDX-License-Identifier: Apache-2.0
// A group on a slow network: its stream pauses before every call, so that whoever does not wait for
// a result reads what was there before, and whoever does not wait before writing spoils the call.
#pragma once

#include <chrono>
#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme::test {

class SlowCommunicator final : public Communicator {
 public:
  // `inner` must outlive this.
  explicit SlowCommunicator(Communicator& inner)
      : Communicator(inner.rank(), inner.size(), inner.name(), counters_of(inner)), inner_(inner) {}

  void all_reduce(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override {
    slow(stream).all_reduce(stream, in, out, op);
  }
  void reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out, ReduceOp op) override {
    slow(stream).reduce_scatter(stream, in, out, op);
  }
  void all_gather(Stream& stream, const Tensor& in, const Tensor& out) override {
    slow(stream).all_gather(stream, in, out);
  }
  void all_to_all(Stream& stream, const Tensor& in, const Tensor& out) override {
    slow(stream).all_to_all(stream, in, out);
  }
  void broadcast(Stream& stream, const Tensor& data, int root) override {
    slow(stream).broadcast(stream, data, root);
  }
  void send(Stream& stream, const Tensor& data, int to) override {
    slow(stream).send(stream, data, to);
  }
  void recv(Stream& stream, const Tensor& data, int from) override {
    slow(stream).recv(stream, data, from);
  }
  void group_begin() override { inner_.group_begin(); }
  void group_end(Stream& stream) override { slow(stream).group_end(stream); }
  void barrier() override { inner_.barrier(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name) override {
    return inner_.split(color, key, std::move(name));
  }

 private:
  Communicator& slow(Stream& stream) {
    enqueue(stream, [] { std::this_thread::sleep_for(std::chrono::microseconds(200)); });
    return inner_;
  }

  Communicator& inner_;
};

}  // namespace trireme::test
