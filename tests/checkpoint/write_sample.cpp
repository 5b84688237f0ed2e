// SPDX-License-Identifier: Apache-2.0
// write_sample DIRECTORY: the sample chain as a checkpoint of a layout that cuts everything, and
// whole as expected.safetensors beside it, for readers that are not ours.
#include <cstdio>

#include "runtime/base/log.h"
#include "runtime/checkpoint/gather.h"
#include "tests/checkpoint/parts.h"

namespace trireme {
namespace {

constexpr std::int64_t step = 100;

void write_sample(const MpiEnvironment& mpi, const std::string& directory) {
  const auto device = Device::create(DeviceType::cpu);
  const auto world = mpi.world();
  const bool four = mpi.size() == 4;
  test::Part part(*device, *world,
                  {"", four ? MeshShape{1, 2, 2} : MeshShape{1, mpi.size(), 1}, 1, 4});
  part.fill(step);
  CheckpointSaver saver(*device, part.mesh, part.placed, part.values, {.directory = directory});
  saver.save(*part.stream, step, "{}");
  saver.finish();
  if (const auto report = saver.take_report(); !report->committed())
    fail(ExitCode::checkpoint, "{}", report->problem);
  const auto comm = device->make_stream(StreamKind::comm);
  const auto tensors = gather_whole(
      *device, part.mesh, *comm, part.params, part.placed,
      [&](const Bucket& bucket) { return part.params.masters().owned(bucket); }, true);
  if (mpi.rank() == 0) save_weights(directory + "/expected.safetensors", tensors, {});
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    const trireme::MpiEnvironment mpi(&argc, &argv);
    trireme::log::initialize(mpi.rank());
    if (argc != 2) trireme::fail(trireme::ExitCode::config, "usage: write_sample DIRECTORY");
    trireme::write_sample(mpi, argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    trireme::abort_job(1);
  }
}
