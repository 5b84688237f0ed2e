// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/data/field_rates.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/fields/file_list.h"
#include "data/fields/storage/filters.h"
#include "data/fields/storage/index_child.h"
#include "data/loader/permutation.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

namespace trireme {
namespace {

using ReadOne = std::function<void(std::size_t)>;

struct FieldMethod {
  std::string name;
  std::int64_t threads = 1;
  std::function<ReadOne()> make;  // a reader belongs to one thread
  double best = 0;                // samples per second
};

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
  const FieldOptions options{.files = {bench.files},
                             .inputs = {bench.input},
                             .target = bench.target,
                             .axes = bench.axes,
                             .not_finite = NotFinite::refuse};
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

// Into one place, as the page cache gives them.
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

// The last filter of each chunk, the compressor, undone and no more.
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

double run_field_round(const FieldMethod& method, const FieldWork& work, double seconds) {
  std::atomic<std::uint64_t> samples = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto run = [&](std::int64_t thread) {
    const ReadOne read = method.make();
    std::uint64_t done = 0;
    std::size_t at = work.order.size() * static_cast<std::size_t>(thread) /
                     static_cast<std::size_t>(method.threads);
    do {
      read(work.order[at]);
      at = at + 1 == work.order.size() ? 0 : at + 1;
      ++done;
    } while (seconds_since(start) < seconds);
    samples += done;
  };
  {
    std::vector<std::jthread> pool;
    for (std::int64_t t = 1; t < method.threads; ++t)
      pool.emplace_back(run, t);
    run(0);
  }
  return static_cast<double>(samples) / seconds_since(start);
}

void print_field_row(const std::string& name, std::int64_t threads, double rate,
                     const FieldWork& work, double plain) {
  fmt::print("  {:<34} {:>7} {:>12.1f} {:>12.1f} {:>9.1f} %\n", name, threads,
             rate * static_cast<double>(work.decoded) * 1e-6, rate, 100 * rate / plain);
}

std::string shell_word(const std::string& text) {
  std::string out = "'";
  for (const char letter : text)
    out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return out + "'";
}

// The lines "NAME THREADS SAMPLES_PER_SECOND" of the script; others say why there is none.
void print_peers(const FieldBench& bench, const FieldWork& work, double plain) {
  if (!std::filesystem::exists(bench.script)) {
    fmt::print("  h5py: not measured: {} not found; give --h5py-script\n", bench.script);
    return;
  }
  std::string command =
      fmt::format("{} {} --dataset {} --workers {} --rounds {} --seconds {}",
                  shell_word(bench.python), shell_word(bench.script), shell_word(bench.input),
                  bench.threads, bench.rounds, bench.seconds);
  constexpr std::size_t most = 512;  // files on a command line
  for (std::size_t i = 0; i < std::min(most, work.order.size()); ++i)
    command += " " + shell_word(work.index(work.order[i]).path);
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) system_failed("popen", bench.script);
  char line[512] = "";
  while (std::fgets(line, sizeof(line), pipe) != nullptr) {
    char name[64] = "";
    long threads = 0;
    double rate = 0;
    if (std::sscanf(line, "rate %63s %ld %lf", name, &threads, &rate) == 3) {
      print_field_row(name, threads, rate, work, plain);
    } else {
      fmt::print("  {}", line);
    }
  }
  ::pclose(pipe);
}

}  // namespace

void bench_fields(const FieldBench& bench) {
  const FieldWork work = make_work(bench);
  const bool filtered = !work.input(0).filters.empty();
  fmt::print("{} samples of {} bytes, {} stored; shuffled, page cache warm\n", work.samples,
             work.decoded, work.stored);
  fmt::print("  {:<34} {:>7} {:>12} {:>12} {:>11}\n", "", "threads", "decoded MB/s", "samples/s",
             "of pread");
  std::vector<FieldMethod> methods;
  for (const std::int64_t threads : {std::int64_t{1}, bench.threads}) {
    if (threads == 1 && !methods.empty()) continue;
    methods.push_back({"plain pread of the stored bytes", threads, plain_reader(work)});
    if (filtered)
      methods.push_back(
          {fmt::format("pread and {} alone", filter_name(work.input(0).filters.back())), threads,
           decoder_alone(work)});
    methods.push_back({"Trireme reader", threads, own_reader(work)});
  }
  const ReadOne warm = methods.front().make();
  for (const std::size_t sample : work.order)
    warm(sample);
  for (std::int64_t round = 0; round < bench.rounds; ++round) {
    for (FieldMethod& method : methods)
      method.best = std::max(method.best, run_field_round(method, work, bench.seconds));
  }
  double plain = 0;
  for (const FieldMethod& method : methods) {
    if (method.name.starts_with("plain")) plain = method.best;
    print_field_row(method.name, method.threads, method.best, work, plain);
  }
  print_peers(bench, work, methods.front().best);
}

}  // namespace trireme
