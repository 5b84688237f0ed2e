// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/fields/storage/filters.h"
#include "data/files/file_tree.h"
#include "data/hdf5/child.h"
#include "data/loader/sampler.h"
#include "launch/bench/data/reading.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

struct FieldWork {
  std::unique_ptr<FieldDataset> data;
  std::vector<FileDescriptor> files;
  std::vector<std::size_t> order;
  std::uint64_t stored = 0, decoded = 0;  // bytes of the first sample
  std::uint64_t samples = 0;

  [[nodiscard]] const FileIndex& index(std::size_t sample) const { return data->indexes()[sample]; }
  [[nodiscard]] const StoredField& input(std::size_t sample) const {
    return index(sample).units.front().fields.front();
  }
};

FieldWork make_work(const FieldBench& bench) {
  const FieldOptions options{{.files = {bench.files},
                              .inputs = {bench.input},
                              .target = {bench.target},
                              .axes = bench.axes,
                              .not_finite = NotFinite::refuse}};
  const auto files = expand_files(options.files);
  const auto start = std::chrono::steady_clock::now();
  auto indexes =
      scan_in_children(files, scan_request(options), static_cast<std::size_t>(bench.threads));
  fmt::print("{} files indexed by {} processes in {:.3f} s\n", files.size(), bench.threads,
             seconds_since(start));
  FieldWork work;
  work.data = std::make_unique<FieldDataset>(std::move(indexes), options);
  for (const StoredChunk& chunk : work.input(0).chunks)
    work.stored += chunk.bytes;
  work.decoded = work.data->layout().input_bytes();
  const std::uint64_t limit = static_cast<std::uint64_t>(bench.megabytes) * 1'000'000;
  work.samples = std::clamp<std::uint64_t>(limit / std::max<std::uint64_t>(work.stored, 1), 1,
                                           static_cast<std::uint64_t>(work.data->size()));
  for (std::uint64_t i = 0; i < work.samples; ++i)
    work.files.push_back(open_for_reading(work.index(i).path, ExitCode::data));
  const Permutation order(work.samples, 1, 0);
  for (std::uint64_t i = 0; i < work.samples; ++i)
    work.order.push_back(static_cast<std::size_t>(order(i)));
  return work;
}

void read_chunk(const FieldWork& work, std::size_t sample, const StoredChunk& chunk,
                std::span<std::byte> to) {
  read_exactly(work.files[sample], work.index(sample).path, chunk.offset, to, ExitCode::data);
}

// Into one buffer, from the page cache.
std::function<ReadOne()> plain_reader(const FieldWork& work) {
  return [&work] {
    auto memory = std::make_shared<std::vector<std::byte>>();
    return [&work, memory](std::size_t sample) {
      for (const StoredChunk& chunk : work.input(sample).chunks) {
        if (memory->size() < chunk.bytes) memory->resize(static_cast<std::size_t>(chunk.bytes));
        read_chunk(work, sample, chunk,
                   std::span(*memory).first(static_cast<std::size_t>(chunk.bytes)));
      }
    };
  };
}

// Undoes only the last filter of each chunk, the compressor.
std::function<ReadOne()> decoder_alone(const FieldWork& work) {
  return [&work] {
    auto memory = std::make_shared<std::vector<std::byte>>();
    auto chunk_memory = std::make_shared<std::vector<std::byte>>();
    auto decoder = std::make_shared<ChunkDecoder>();
    return [&work, memory, chunk_memory, decoder](std::size_t sample) {
      const StoredField& field = work.input(sample);
      const std::vector<FilterStep> last{field.filters.back()};
      chunk_memory->resize(static_cast<std::size_t>(field.chunk_bytes()));
      for (const StoredChunk& chunk : field.chunks) {
        if (memory->size() < chunk.bytes) memory->resize(static_cast<std::size_t>(chunk.bytes));
        const auto stored = std::span(*memory).first(static_cast<std::size_t>(chunk.bytes));
        read_chunk(work, sample, chunk, stored);
        decoder->decode(last, 0, stored, *chunk_memory);
      }
    };
  };
}

std::function<ReadOne()> own_reader(const FieldWork& work) {
  return [&work] {
    auto memory = std::make_shared<std::vector<std::byte>>(work.data->layout().input_bytes());
    return [&work, memory](std::size_t sample) {
      std::int32_t label = 0;
      work.data->read(static_cast<std::int64_t>(sample), *memory, {&label, 1});
    };
  };
}

PeerScript peers_of(const FieldBench& bench, const FieldWork& work) {
  PeerScript peers{
      bench.python,
      bench.script,
      "--h5py-files-script",
      {"--dataset", bench.input, "--workers", fmt::format("{}", bench.threads), "--rounds",
       fmt::format("{}", bench.rounds), "--seconds", fmt::format("{}", bench.seconds)}};
  constexpr std::size_t most = 512;  // files on a command line
  for (std::size_t i = 0; i < std::min(most, work.order.size()); ++i)
    peers.arguments.push_back(work.index(work.order[i]).path);
  return peers;
}

}  // namespace

void bench_fields(const FieldBench& bench) {
  const FieldWork work = make_work(bench);
  const bool filtered = !work.input(0).filters.empty();
  fmt::print("{} samples of {} bytes, {} stored; shuffled, page cache warm\n", work.samples,
             work.decoded, work.stored);
  print_reading_head("decoded MB/s", "of pread");
  std::vector<ReadingMethod> methods;
  for (const std::int64_t threads : {std::int64_t{1}, bench.threads}) {
    if (threads == 1 && !methods.empty()) continue;
    methods.push_back({"plain pread of the stored bytes", threads, plain_reader(work)});
    if (filtered)
      methods.push_back(
          {fmt::format("pread and {} alone", filter_name(work.input(0).filters.back())), threads,
           decoder_alone(work)});
    methods.push_back({"Trireme reader", threads, own_reader(work)});
  }
  run_rounds(methods, {work.order, bench.rounds, bench.seconds});
  const auto bytes = static_cast<double>(work.decoded);
  double plain = 0;
  for (const ReadingMethod& method : methods) {
    if (method.name.starts_with("plain")) plain = method.best;
    print_reading_row(method.name, method.threads, method.best, bytes, plain);
  }
  print_peers(peers_of(bench, work), bytes, methods.front().best);
}

}  // namespace trireme
