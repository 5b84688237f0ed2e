// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/comm/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/comm/host_stream.h"

namespace trireme::comm_bench {
namespace {

constexpr int max_calls = 256;  // per batch

// Rank `rank`'s value at element `i`: sums over thousands of ranks are exact in f32.
constexpr std::int64_t period = 11;
float value_of(int rank, std::int64_t i) {
  return static_cast<float>((rank + i) % period);
}

struct Sizes {
  std::int64_t in = 0, out = 0;  // elements
};

Sizes sizes_of(Verb verb, int ranks, std::int64_t elements) {
  if (verb == Verb::reduce_scatter) return {elements, elements / ranks};
  if (verb == Verb::all_gather) return {elements / ranks, elements};
  return {elements, elements};
}

// One collective with its tensors.
class Call {
 public:
  Call(Communicator& group, Device& device, Verb verb, std::int64_t bytes)
      : group_(group),
        device_(device),
        verb_(verb),
        sizes_(sizes_of(verb, group.size(), bytes / static_cast<std::int64_t>(sizeof(float)))),
        stream_(device.make_stream(StreamKind::comm)),
        in_(device, size_in_bytes(sizes_.in), MemoryKind::device),
        out_(device, size_in_bytes(sizes_.out), MemoryKind::device),
        host_(device, size_in_bytes(std::max(sizes_.in, sizes_.out)), MemoryKind::host) {
    for (int rank = 0; rank < group.size(); ++rank) {
      for (std::int64_t i = 0; i < period; ++i)
        sums_[static_cast<std::size_t>(i)] += value_of(rank, i);
    }
    auto* const values = reinterpret_cast<float*>(host_.data());
    for (std::int64_t i = 0; i < sizes_.in; ++i)
      values[i] = value_of(group.rank(), i);
    device.copy(*stream_, in_.data(), host_.data(), in_.bytes());
    // A broadcast works in place: only its root has the values.
    if (verb == Verb::broadcast && group.rank() == root) {
      device.copy(*stream_, out_.data(), host_.data(), out_.bytes());
    } else {
      device.fill_zero(*stream_, out_.data(), out_.bytes());
    }
    stream_->synchronize();
  }

  // Seconds per call on this rank.
  double run(int calls, double pause_seconds) {
    group_.barrier();
    if (pause_seconds > 0) {
      double seconds = 0;
      for (int i = 0; i < calls; ++i)
        seconds += run_after(pause_seconds);
      return seconds / calls;
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i)
      enqueue();
    stream_->synchronize();
    return seconds_since(start) / calls;
  }

  // Number of wrong elements in the result.
  std::int64_t wrong() {
    device_.copy(*stream_, host_.data(), out_.data(), out_.bytes());
    stream_->synchronize();
    const auto* const values = reinterpret_cast<const float*>(host_.data());
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < sizes_.out; ++i)
      count += values[i] == expected(i) ? 0 : 1;
    return count;
  }

 private:
  static constexpr int root = 0;

  static std::size_t size_in_bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(float);
  }

  double run_after(double pause_seconds) {
    const auto begin = std::chrono::steady_clock::now();
    while (seconds_since(begin) < pause_seconds) {
    }
    const auto start = std::chrono::steady_clock::now();
    enqueue();
    stream_->synchronize();
    return seconds_since(start);
  }

  void enqueue() {
    const Tensor in = in_.view(DType::f32, Shape{sizes_.in});
    const Tensor out = out_.view(DType::f32, Shape{sizes_.out});
    const int next = (group_.rank() + 1) % group_.size();
    const int before = (group_.rank() + group_.size() - 1) % group_.size();
    switch (verb_) {
      case Verb::all_reduce:
        return group_.all_reduce(*stream_, in, out, ReduceOp::sum);
      case Verb::reduce_scatter:
        return group_.reduce_scatter(*stream_, in, out, ReduceOp::sum);
      case Verb::all_gather:
        return group_.all_gather(*stream_, in, out);
      case Verb::all_to_all:
        return group_.all_to_all(*stream_, in, out);
      case Verb::broadcast:
        return group_.broadcast(*stream_, out, root);
      case Verb::send:
      case Verb::recv:
        group_.group_begin();
        group_.send(*stream_, in, next);
        group_.recv(*stream_, out, before);
        return group_.group_end(*stream_);
    }
  }

  float expected(std::int64_t i) const {
    const int ranks = group_.size(), rank = group_.rank();
    const std::int64_t slice = sizes_.in / ranks;
    switch (verb_) {
      case Verb::all_reduce:
        return sum(i);
      case Verb::reduce_scatter:
        return sum(rank * slice + i);
      case Verb::all_gather:
        return value_of(static_cast<int>(i / sizes_.in), i % sizes_.in);
      case Verb::all_to_all:
        return value_of(static_cast<int>(i / slice), rank * slice + i % slice);
      case Verb::broadcast:
        return value_of(root, i);
      case Verb::send:
      case Verb::recv:
        return value_of((rank + ranks - 1) % ranks, i);
    }
    return 0;
  }

  float sum(std::int64_t i) const { return sums_[static_cast<std::size_t>(i % period)]; }

  Communicator& group_;
  Device& device_;
  Verb verb_;
  Sizes sizes_;
  std::array<float, period> sums_{};
  std::unique_ptr<Stream> stream_;
  Buffer in_, out_, host_;
};

void reduce(Communicator& world, std::vector<double>& values, ReduceOp op) {
  const HostStream stream;
  const Tensor tensor{reinterpret_cast<std::byte*>(values.data()), DType::f64,
                      Shape{std::ssize(values)}};
  world.all_reduce(*stream, tensor, tensor, op);
}

// Equal on all ranks.
int calls_of_a_batch(Communicator& world, double seconds_of_a_call, double batch_seconds) {
  std::vector<double> slowest{seconds_of_a_call};
  reduce(world, slowest, ReduceOp::max);
  return static_cast<int>(
      std::clamp(batch_seconds / std::max(slowest[0], 1e-9), 1.0, static_cast<double>(max_calls)));
}

}  // namespace

std::string_view title_of(Verb verb) {
  return verb == Verb::recv ? "send_recv" : name_of(verb);
}

std::int64_t size_of(Verb verb, int ranks, std::int64_t bytes) {
  const std::int64_t unit =
      static_cast<std::int64_t>(sizeof(float)) * (cuts_tensor(verb) ? ranks : 1);
  return std::max<std::int64_t>(bytes / unit, 1) * unit;
}

CommTime measure(Communicator& group, Communicator& world, Device& device, Verb verb,
                 std::int64_t bytes, const MeasureOptions& options) {
  Call call(group, device, verb, bytes);
  const double pause = options.pause_seconds;
  call.run(2, pause);  // connections, scratch memory
  const int calls = calls_of_a_batch(world, pause + call.run(2, pause), options.batch_seconds);
  std::vector<double> seconds;
  for (int i = 0; i < options.repeats; ++i)
    seconds.push_back(call.run(calls, pause));
  std::vector<double> wrong{static_cast<double>(call.wrong())};
  reduce(world, seconds, ReduceOp::max);
  reduce(world, wrong, ReduceOp::sum);
  std::ranges::sort(seconds);
  return {.median = (seconds[(seconds.size() - 1) / 2] + seconds[seconds.size() / 2]) / 2,
          .fastest = seconds.front(),
          .wrong = static_cast<std::int64_t>(wrong[0])};
}

}  // namespace trireme::comm_bench
