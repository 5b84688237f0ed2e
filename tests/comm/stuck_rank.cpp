// SPDX-License-Identifier: Apache-2.0
// A watched job with a faulty rank: `stuck_rank MODE DEADLINE DIRECTORY`, run by expect_stuck.sh.
// After two good calls, rank 1 does as MODE says while the others call all_reduce number 3:
//   none       the same
//   early      stops as if by SIGSTOP before anything is watched
//   joined     without MPI: proves to be rank 1 and then is silent
//   silent     sleeps forever
//   inline     the same; the others' main threads are blocked in a call on a compute stream
//   stopped    stops as if by SIGSTOP
//   finalize   the call succeeds; stops as if by SIGSTOP before MPI_Finalize
//   killed     dies of SIGKILL
//   throw      raises an error
//   left       leaves main early, with success
//   late       arrives after half of the deadline
//   suspended  all ranks are stopped for longer than the deadline, then continue
//   verb       calls broadcast
//   part       sleeps forever, like others; rank 0 waits in a group of ranks 0 and 1
//   recv       sends two of the three messages that rank 0 waits for
//   behind     waits for a message that never arrives, before its part of the call
//   step       makes no progress in a step, while the others compute and call nothing; with one
//              rank it is rank 0
//   forward    the same, while the others call
//   hurried    the same, after SIGTERM
// checked_verb, checked_count, checked_dtype, checked_silent: with Checked inside.
// checked_unheeded: a call fails, and no thread waits for its stream. On a GPU if
// TRIREME_TEST_DEVICE says so.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "runtime/comm/comm_label.h"
#include "runtime/comm/host/tcp/tcp_place.h"
#include "runtime/comm/mpi.h"
#include "runtime/comm/nccl.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/comm/watchdog/watched.h"
#include "tests/support/test_device.h"

namespace trireme {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// A stopped process cannot wake itself up.
void stop_for(double seconds) {
  const std::string later =
      fmt::format("(sleep {}; kill -CONT {}) >/dev/null 2>&1 &", seconds, getpid());
  if (std::system(later.c_str()) == 0) raise(SIGSTOP);
}

struct Job {
  Job(const MpiEnvironment& mpi, const std::string& mode, const WatchOptions& options)
      : device(Device::create(
            test::device_under_test(),
            {.local_rank = mpi.local_rank(), .local_size = mpi.local_size(), .share = true})),
        stream(device->make_stream(mode == "inline" ? StreamKind::compute : StreamKind::comm)),
        world(make_watched(make_inner(mpi, mode), options)),
        part(world->split(mpi.rank() / 2, mpi.rank(), "part")),
        buffer(*device, 4096, MemoryKind::device),
        data(buffer.view(DType::f32, {12})) {
    device->fill_zero(*stream, buffer.data(), buffer.bytes());
  }
  std::unique_ptr<Communicator> make_inner(const MpiEnvironment& mpi,
                                           const std::string& mode) const {
    auto inner = mpi.world();
    if (device->type() == DeviceType::cuda) inner = make_nccl_world(std::move(inner), *device, {});
    return mode.starts_with("checked") ? make_checked(std::move(inner)) : std::move(inner);
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Communicator> world, part;
  Buffer buffer;
  Tensor data;
};

// Rank 1's fault before its part of the third call, if any.
void misbehave(Job& job, const std::string& mode, double deadline) {
  const ScopedCommLabel label("the odd one");
  if (mode == "silent" || mode == "inline" || mode == "part" || mode == "checked_silent") {
    sleep_for(1e6);
  }
  if (mode == "stopped") raise(SIGSTOP);
  if (mode == "killed") raise(SIGKILL);
  if (mode == "throw") fail(ExitCode::data, "the mistake of rank 1");
  if (mode == "left") std::_Exit(0);
  if (mode == "late" || mode == "recv") sleep_for(deadline / 2);
  if (mode == "verb" || mode == "checked_verb") job.world->broadcast(*job.stream, job.data, 0);
  if (mode.starts_with("checked_") && mode != "checked_silent" && mode != "checked_verb") {
    const Tensor other =
        mode != "checked_dtype" ? job.data.range(0, 7) : job.buffer.view(DType::i32, {12});
    job.world->all_reduce(*job.stream, other, other, ReduceOp::sum);
  }
  if (mode == "behind") job.part->recv(*job.stream, job.data, 0);
}

// Computes until the job ends; the faulty rank stays in one place.
void compute_on(bool culprit) {
  for (;;) {
    set_activity("forward", 0, 3);
    sleep_for(culprit ? 1e6 : 0.1);
  }
}

void join_and_be_silent() {
  const auto place = tcp_place();
  if (!place || place->rank != 1) return;
  const auto sockets = tcp_connect_all(*place);
  sleep_for(1e6);
}

void run(const MpiEnvironment& mpi, const std::string& mode, const WatchOptions& options) {
  if (mode == "early" && mpi.rank() == 1) raise(SIGSTOP);
  const auto watchdog = keep_watchdog(options);
  Job job(mpi, mode, options);
  for (int step = 11; step < 13; ++step) {
    set_comm_step(step);
    const ScopedCommLabel label("bucket 2");
    job.world->all_reduce(*job.stream, job.data, job.data, ReduceOp::sum);
    if (mode == "recv" && mpi.rank() == 0) job.part->recv(*job.stream, job.data, 1);
    if (mode == "recv" && mpi.rank() == 1) job.part->send(*job.stream, job.data, 0);
  }
  job.stream->synchronize();

  std::optional<StepWatch> steps;
  if (mode == "step" || mode == "forward" || mode == "hurried") steps.emplace();
  if (mode == "hurried") hurry_watched_waits();
  const bool culprit = mpi.rank() == std::min(1, mpi.size() - 1);
  if (mode == "step" || (steps && culprit)) compute_on(culprit);
  const bool computes = mode == "part" && mpi.rank() > 1;
  if (mpi.rank() == 1 || computes) misbehave(job, mode, options.deadline_seconds);
  const ScopedCommLabel label("bucket 3 (blocks.2)");
  if (mode == "recv" && mpi.rank() == 0) {
    job.part->recv(*job.stream, job.data, 1);
  } else if (mode == "part") {
    job.part->all_reduce(*job.stream, job.data, job.data, ReduceOp::sum);
  } else {
    if (mode == "suspended" && mpi.rank() == 1) sleep_for(options.deadline_seconds / 2);
    job.world->all_reduce(*job.stream, job.data, job.data, ReduceOp::sum);
  }
  if (mode == "checked_unheeded") sleep_for(1e6);
  if (mode == "suspended") stop_for(options.deadline_seconds + 3);
  job.stream->synchronize();
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    if (argc != 4) trireme::fail(trireme::ExitCode::config, "stuck_rank MODE DEADLINE DIRECTORY");
    if (argv[1] == std::string("joined")) trireme::join_and_be_silent();
    const trireme::MpiEnvironment mpi(&argc, &argv);
    trireme::set_process_label(mpi.rank(), mpi.size());
    trireme::run(mpi, argv[1], {std::atof(argv[2]), argv[3]});
    if (argv[1] == std::string("finalize") && mpi.rank() == 1) std::raise(SIGSTOP);
    std::puts("the job ended well");
    return 0;
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "[%s] %s\n", trireme::process_label().c_str(), error.what());
    trireme::abort_job(static_cast<int>(error.code()));
  }
}
