// SPDX-License-Identifier: Apache-2.0
// Measures how much of an all-reduce overlaps with compute:
//   mpirun -np 2 tests/overlap_bench [MiB=40] [bucket MiB=4] [rounds=9]
// Prints milliseconds of the fastest round and, after the slash, processor milliseconds of this
// rank per round: compute alone, communication alone (on the comm stream), one after the other on
// the compute stream, and overlapped. Processor time shows the cost of polling, even on a busy
// machine. A benchmark, not a test.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <vector>

#include "runtime/comm/mpi.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

// A fixed amount of arithmetic that stays in the first-level cache.
void compute_slice(std::vector<float>& values) {
  for (int repeat = 0; repeat < 12000; ++repeat) {
    for (float& value : values)
      value = value * 0.999F + 0.001F;
  }
}

double processor_ms() {
  rusage use{};
  if (getrusage(RUSAGE_SELF, &use) != 0) system_failed("getrusage", "self");
  const auto ms = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) * 1e-3;
  };
  return ms(use.ru_utime) + ms(use.ru_stime);
}

struct Measured {
  double fastest_ms = 1e300;
  double processor_ms = 0;
};

Measured measure(Communicator& world, int rounds, const std::function<void()>& action) {
  Measured result;
  for (int i = 0; i < rounds; ++i) {
    world.barrier();
    const double processor = processor_ms();
    const auto start = Clock::now();
    action();
    const std::chrono::duration<double, std::milli> wall = Clock::now() - start;
    result.fastest_ms = std::min(result.fastest_ms, wall.count());
    result.processor_ms += (processor_ms() - processor) / rounds;
  }
  return result;
}

void run(const MpiEnvironment& mpi, std::int64_t total, std::int64_t bucket, int rounds) {
  const auto device = Device::create(DeviceType::cpu);
  const auto compute = device->make_stream(StreamKind::compute);
  const auto comm = device->make_stream(StreamKind::comm);
  const auto world = mpi.world();
  const Buffer buffer(*device, static_cast<std::size_t>(total) * 4, MemoryKind::device);
  device->fill_zero(*compute, buffer.data(), buffer.bytes());
  const Tensor data = buffer.view(DType::f32, {total});
  std::vector<float> values(4096, 1.0F);
  const auto reduce = [&](Stream& stream, std::int64_t begin) {
    const Tensor part = data.range(begin, std::min(bucket, total - begin));
    world->all_reduce(stream, part, part, ReduceOp::sum);
  };
  const auto each_bucket = [&](const std::function<void(std::int64_t)>& action) {
    for (std::int64_t begin = 0; begin < total; begin += bucket)
      action(begin);
  };

  const Measured computing =
      measure(*world, rounds, [&] { each_bucket([&](std::int64_t) { compute_slice(values); }); });
  const Measured communicating = measure(*world, rounds, [&] {
    each_bucket([&](std::int64_t begin) { reduce(*comm, begin); });
    comm->synchronize();
  });
  const Measured inlined = measure(*world, rounds, [&] {
    each_bucket([&](std::int64_t begin) {
      compute_slice(values);
      reduce(*compute, begin);
    });
  });
  const Measured overlapped = measure(*world, rounds, [&] {
    each_bucket([&](std::int64_t begin) {
      compute_slice(values);
      reduce(*comm, begin);
    });
    comm->synchronize();
  });
  if (mpi.rank() == 0) {
    const auto print = [](const char* name, const Measured& measured) {
      fmt::print("{} {:.1f}/{:.1f}  ", name, measured.fastest_ms, measured.processor_ms);
    };
    print("compute", computing);
    print("comm", communicating);
    print("inline", inlined);
    print("overlapped", overlapped);
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    const trireme::MpiEnvironment mpi(&argc, &argv);
    const auto mebibytes = [&](int index, std::int64_t otherwise) {
      return (argc > index ? std::atoll(argv[index]) : otherwise) * (1 << 20) / 4;
    };
    trireme::run(mpi, mebibytes(1, 40), mebibytes(2, 4), argc > 3 ? std::atoi(argv[3]) : 9);
    return 0;
  } catch (const trireme::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
