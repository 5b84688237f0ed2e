// SPDX-License-Identifier: Apache-2.0
// save_bench DIRECTORY MEBIBYTES: a checkpoint of one AdamW state of about that size, written and
// read back, beside plain writes and reads of as many bytes to the same directory (what
// `dd bs=1M conv=fsync` does). Best of the rounds; a save counts from its copy in memory to the
// rename; page cache warm for the reads.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/names.h"
#include "runtime/checkpoint/restore.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/comm/mpi.h"

namespace trireme {
namespace {

constexpr int rounds = 5;
constexpr std::int64_t width = 1024;
constexpr std::size_t piece = std::size_t{1} << 20;

template <typename Action>
double seconds_of(Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_plainly(const std::string& path, std::uint64_t bytes) {
  const std::vector<std::byte> data(piece, std::byte{7});
  const FileDescriptor file = open_for_writing(path, ExitCode::internal);
  for (std::uint64_t done = 0; done < bytes; done += piece)
    write_fully(file, path, data, ExitCode::internal);
  if (::fsync(file.get()) != 0) write_failed("fsync", path);
}

void read_plainly(const std::string& path, std::uint64_t bytes) {
  std::vector<std::byte> data(piece);
  const FileDescriptor file = open_for_reading(path, ExitCode::internal);
  for (std::uint64_t done = 0; done + piece <= bytes; done += piece)
    read_exactly(file, path, done, data, ExitCode::internal);
}

void bench(const MpiEnvironment& mpi, const std::string& directory, std::int64_t mebibytes) {
  const auto device = Device::create(DeviceType::cpu);
  const auto stream = device->make_stream(StreamKind::compute);
  const auto world = mpi.world();
  const ProcessMesh mesh(*world, {.data = mpi.size()});
  ParamStore params;
  std::vector<PlacedParam> placed;
  const std::int64_t rows = std::max<std::int64_t>(1, (mebibytes << 20) / 12 / width / 16);
  for (int i = 0; i < 16; ++i) {
    placed.push_back({{.name = fmt::format("w{}", i), .shape = {rows, width}}, 0});
    params.declare(placed.back().spec);
  }
  params.allocate(*device, {.zero = {.stage = 1, .ranks = mpi.size(), .rank = mpi.rank()}});
  params.initialize(*stream, 1);
  const std::int64_t owned = params.layout().owned_elements();
  const Buffer moments(*device, static_cast<std::size_t>(owned) * sizeof(float),
                       MemoryKind::device);
  device->fill_zero(*stream, moments.data(), moments.bytes());
  const Tensor moment = moments.view(DType::f32, Shape{owned});
  const CheckpointValues values{.params = params, .first = moment, .second = moment};
  CheckpointSaver saver(*device, mesh, placed, values, {.directory = directory, .keep = 1});
  double plain_write = 1e9, plain_read = 1e9, save = 1e9, verify = 1e9, restore = 1e9;
  SaveReport report;
  const std::string plain = fmt::format("{}/plain_{}", directory, mpi.rank());
  std::uint64_t total = 0, mine = 0;
  for (int round = 1; round <= rounds; ++round) {
    world->barrier();
    saver.save(*stream, round, "{}");
    saver.finish();
    report = *saver.take_report();
    if (!report.committed()) fail(ExitCode::internal, "{}", report.problem);
    save = std::min(save, (report.write_ms + report.commit_ms) * 1e-3);
    mine = report.bytes;
    world->barrier();
    plain_write = std::min(plain_write, seconds_of([&] { write_plainly(plain, mine); }));
    std::optional<FoundCheckpoint> found;
    verify = std::min(verify, seconds_of([&] { found = find_newest_valid(directory, *world); }));
    total = found->manifest.value_bytes();
    restore = std::min(
        restore, seconds_of([&] { restore_checkpoint(*found, *device, *stream, placed, values); }));
    world->barrier();
    plain_read = std::min(plain_read, seconds_of([&] { read_plainly(plain, mine); }));
    ::unlink(plain.c_str());
  }
  if (mpi.rank() != 0) return;
  const auto rate = [](std::uint64_t bytes, double seconds) {
    return static_cast<double>(bytes) * 1e-6 / seconds;
  };
  fmt::print("{} ranks, {:.0f} MB in all, {:.0f} MB of rank 0\n", mpi.size(),
             static_cast<double>(total) * 1e-6, static_cast<double>(mine) * 1e-6);
  fmt::print("write   plain {:6.0f} MB/s   save {:6.0f} MB/s   {:3.0f} %\n",
             rate(mine, plain_write), rate(mine, save), 100 * plain_write / save);
  fmt::print("read    plain {:6.0f} MB/s   verify {:6.0f} MB/s   restore {:6.0f} MB/s\n",
             rate(mine, plain_read), rate(total / static_cast<std::uint64_t>(mpi.size()), verify),
             rate(total / static_cast<std::uint64_t>(mpi.size()), restore));
  fmt::print("last save: stall {:.1f} ms, copy {:.1f} ms, write {:.0f} ms, commit {:.1f} ms\n",
             report.stall_ms, report.copy_ms, report.write_ms, report.commit_ms);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  try {
    const trireme::MpiEnvironment mpi(&argc, &argv);
    trireme::log::initialize(mpi.rank());
    if (argc != 3)
      trireme::fail(trireme::ExitCode::config, "usage: save_bench DIRECTORY MEBIBYTES");
    trireme::bench(mpi, argv[1], std::atoll(argv[2]));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    trireme::abort_job(1);
  }
}
