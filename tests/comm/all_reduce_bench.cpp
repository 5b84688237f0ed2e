// SPDX-License-Identifier: Apache-2.0
// Compares our all-reduce with MPI's, alternating on the same ranks:
//   mpirun -np 2 tests/all_reduce_bench [largest MiB=16] [rounds=15]
// As in OSU's osu_allreduce, a batch has consecutive calls, and the slowest rank counts. Prints the
// median of the rounds, and the ratio of the medians. Our sum has one order for all sizes
// (reduce.h); MPI's has not. "compute stream" is an inline call, "comm stream" one on a worker
// thread, as in training. A benchmark, not a test.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/comm/host/mpi_check.h"
#include "runtime/comm/mpi.h"
#include "runtime/device/device.h"

namespace trireme {
namespace {

// Seconds per call on the slowest rank.
double time_batch(int calls, const std::function<void()>& call, const std::function<void()>& end) {
  TRIREME_MPI(MPI_Barrier(MPI_COMM_WORLD));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i)
    call();
  end();
  double seconds = seconds_since(start) / calls;
  TRIREME_MPI(MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
  return seconds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run(const MpiEnvironment& mpi, std::int64_t largest, int rounds) {
  const auto device = Device::create(DeviceType::cpu);
  const auto compute = device->make_stream(StreamKind::compute);
  const auto comm = device->make_stream(StreamKind::comm);
  const auto inline_group = mpi.world(), queued_group = mpi.world();
  if (mpi.rank() == 0) {
    fmt::print("{} ranks, {}\n{:>12} {:>14} {:>20} {:>18} {:>8} {:>8}\n", mpi.size(),
               mpi_library_version(), "bytes", "MPI (us)", "compute stream (us)",
               "comm stream (us)", "ratio", "ratio");
  }
  for (std::int64_t bytes = 4; bytes <= largest; bytes *= 4) {
    const std::int64_t count = bytes / 4;
    std::vector<float> in(static_cast<std::size_t>(count), 1), out(in.size());
    const Tensor from{reinterpret_cast<std::byte*>(in.data()), DType::f32, Shape{count}};
    const Tensor to{reinterpret_cast<std::byte*>(out.data()), DType::f32, Shape{count}};
    const int calls = static_cast<int>(std::clamp<std::int64_t>((1 << 20) / bytes, 2, 200));
    const auto nothing = [] {};
    const auto mpi_call = [&] {
      TRIREME_MPI(MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                                MPI_COMM_WORLD));
    };
    const auto inline_call = [&] { inline_group->all_reduce(*compute, from, to, ReduceOp::sum); };
    const auto queued_call = [&] { queued_group->all_reduce(*comm, from, to, ReduceOp::sum); };
    const auto queued_end = [&] { comm->synchronize(); };
    std::vector<double> raw, ours, queued;
    for (int round = -1; round < rounds; ++round) {
      const double times[] = {time_batch(calls, mpi_call, nothing),
                              time_batch(calls, inline_call, nothing),
                              time_batch(calls, queued_call, queued_end)};
      if (round < 0) continue;  // warms up
      raw.push_back(times[0]);
      ours.push_back(times[1]);
      queued.push_back(times[2]);
    }
    if (mpi.rank() != 0) continue;
    fmt::print("{:>12} {:>14.1f} {:>20.1f} {:>18.1f} {:>8.2f} {:>8.2f}\n", bytes, 1e6 * median(raw),
               1e6 * median(ours), 1e6 * median(queued), median(raw) / median(ours),
               median(raw) / median(queued));
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const trireme::MpiEnvironment mpi(&argc, &argv);
  const std::int64_t largest = (argc > 1 ? std::atoll(argv[1]) : 16) << 20;
  trireme::run(mpi, largest, argc > 2 ? std::atoi(argv[2]) : 15);
  return 0;
}
