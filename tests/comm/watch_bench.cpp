// SPDX-License-Identifier: Apache-2.0
// mpirun -n 2 watch_bench: microseconds per all_reduce of one double, watched and not, on a compute
// and a comm stream; the best of several rounds that take turns.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <limits>

#include "runtime/comm/comm_label.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/watchdog/call_log.h"
#include "runtime/comm/watchdog/watched.h"

namespace trireme {
namespace {

constexpr int calls = 20'000;
constexpr int rounds = 9;
// Few enough that a stream's ring of tasks is never full, for then each task costs a wake-up.
constexpr int calls_in_flight = 50;

double microseconds_per_call(Communicator& world, Stream& stream, const Tensor& data) {
  world.barrier();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    set_comm_step(i);
    const ScopedCommLabel label("bucket 3 (blocks.2)");
    world.all_reduce(stream, data, data, ReduceOp::max);
    if (i % calls_in_flight == 0) stream.synchronize();
  }
  stream.synchronize();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / calls;
}

// The added cost of a watched call, without waiting for peers.
double microseconds_of_marks() {
  CallLog log("bench", 0, 0, {0, 1});
  CallRecord call;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    const ScopedCommLabel label("bucket 3 (blocks.2)");
    const CallLog::Id id = log.add(call);
    const ScopedCommLabel adopted(log.start(id));
    log.finish(id, id, CallState::done);
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / calls;
}

void run(const MpiEnvironment& mpi) {
  const auto device = Device::create(DeviceType::cpu);
  const auto plain = mpi.world();
  const auto watched = make_watched(mpi.world(), {.deadline_seconds = 60, .directory = ""});
  const Buffer buffer(*device, sizeof(double), MemoryKind::host);
  const Tensor data = buffer.view(DType::f64, {1});
  for (const StreamKind kind : {StreamKind::compute, StreamKind::comm}) {
    const auto stream = device->make_stream(kind);
    device->fill_zero(*stream, buffer.data(), buffer.bytes());
    std::array<double, 3> best;
    best.fill(std::numeric_limits<double>::max());
    for (int round = 0; round < rounds; ++round) {
      best[0] = std::min(best[0], microseconds_per_call(*plain, *stream, data));
      best[1] = std::min(best[1], microseconds_per_call(*watched, *stream, data));
      best[2] = std::min(best[2], microseconds_of_marks());
    }
    if (mpi.rank() == 0) {
      std::printf("%s stream: %.3f us plain, %.3f us watched; the marks alone %.3f us\n",
                  kind == StreamKind::compute ? "compute" : "comm", best[0], best[1], best[2]);
    }
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const trireme::MpiEnvironment mpi(&argc, &argv);
  trireme::run(mpi);
}
