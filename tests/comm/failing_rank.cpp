// SPDX-License-Identifier: Apache-2.0
// A job that must end: `failing_rank MODE`, run by expect_end.sh. Rank 1 fails while the others
// wait for it.
//   throw     rank 1 raises exit code 3 on its main thread, with a collective in flight
//   task      rank 1 raises exit code 3 inside a task of its comm stream
//   mismatch  ranks call different collectives through a checked group
//   exit      rank 1 leaves with exit code 3 through abort_job, without an error
//   hung      the same, and what abort_job calls does not return until its last resort
//   kill      rank 1 is killed
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/mpi.h"
#include "runtime/device/cpu/cpu_stream.h"

namespace trireme {
namespace {

void run(const MpiEnvironment& mpi, const std::string& mode) {
  const auto device = Device::create(DeviceType::cpu);
  const auto stream = device->make_stream(StreamKind::comm);
  const auto world = mode == "mismatch" ? make_checked(mpi.world()) : mpi.world();
  const Buffer buffer(*device, std::size_t{8} << 20, MemoryKind::host);
  const Tensor data = buffer.view(DType::f32, {std::int64_t{2} << 20});
  device->fill_zero(*stream, buffer.data(), buffer.bytes());

  const bool odd = mpi.rank() == 1;
  if (odd && mode == "hung") {
    set_abort_hook([]() noexcept { static_cast<void>(std::raise(SIGALRM)); });
    abort_job(3);
  }
  if (odd && mode == "exit") {
    std::fputs("rank 1 leaves", stdout);  // abort_job must flush it
    abort_job(3);
  }
  if (odd && mode == "kill") std::raise(SIGKILL);
  if (odd && mode == "task") enqueue(*stream, [] { fail(ExitCode::data, "the task of rank 1"); });
  if (odd && mode == "throw") {
    world->recv(*stream, data, 0);  // rank 0 never sends
    fail(ExitCode::data, "the mistake of rank 1");
  }
  world->all_reduce(*stream, data, data, odd && mode == "mismatch" ? ReduceOp::max : ReduceOp::sum);
  stream->synchronize();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    const trireme::MpiEnvironment mpi(&argc, &argv);
    trireme::set_process_label(mpi.rank(), mpi.size());
    trireme::run(mpi, argc > 1 ? argv[1] : "");
    std::fputs("the job ended well\n", stdout);
    return 0;
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "[%s] %s\n", trireme::process_label().c_str(), error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
