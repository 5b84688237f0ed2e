// SPDX-License-Identifier: Apache-2.0
// Reading speed of a data set, side by side: plain pread of the same bytes, our reader, and h5py,
// the peer that calls the HDF5 library. All methods read the same samples in the same order; their
// rounds alternate and the best round counts, so that other load on the machine hits none of them
// alone.
#include "launch/cli/commands.h"
#include "launch/cli/shared_options.h"

#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include "data/images/image_sources.h"
#include "data/loader/sampler.h"
#include "data/megatron/index.h"
#include "data/pack/staged_directory.h"
#include "data/pack/text/token_stream.h"
#include "data/sets/token_dataset.h"
#include "launch/bench/data/loader_rates.h"
#include "launch/bench/data/reading.h"
#include "launch/bench/machine_check.h"
#include "launch/cli/number_check.h"
#include "runtime/base/error.h"
#include "runtime/base/philox.h"

namespace trireme {
namespace {

struct DataBenchArguments : BenchSize {
  std::string path;
  std::int64_t context = 1024;
  bool sequential = false;
  std::string script = "scripts/peers/bench_h5py.py";
  FieldBench fields;  // if an input is given
  ImageBench images;
};

// The location of a sample's bytes.
struct Place {
  std::int64_t sample = 0;
  std::size_t file = 0;
  std::uint64_t offset = 0;  // in the file
};

using MakeReader = std::function<ReadOne()>;

// A shard, or the tokens of Megatron-LM.
struct StoredFile {
  std::string path;
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t count = 0;   // tokens or images
  std::uint64_t element_bytes = 1;
};

struct Workload {
  std::unique_ptr<Dataset> dataset;
  std::vector<StoredFile> files;
  std::vector<Place> places;       // in the order of reading
  std::uint64_t sample_bytes = 0;  // as stored
};

std::vector<StoredFile> files_of(const std::string& path, const Dataset& dataset) {
  if (const auto index_path = find_megatron_index(path)) {
    const MegatronIndex index = open_megatron_index(*index_path);
    return {{index.data_path, 0, index.tokens, size_of(index.type)}};
  }
  std::vector<StoredFile> files;
  for (const Shard& shard : dataset.shards())
    files.push_back({shard.path, shard.data_offset, shard.header.count, shard.element_bytes()});
  return files;
}

// Samples that lie in one file, at most `limit` bytes of them, in reading order.
Workload make_workload(const DataBenchArguments& arguments) {
  Workload work;
  work.dataset = Dataset::open(arguments.path, {.context = arguments.context, .split = "train"});
  work.files = files_of(arguments.path, *work.dataset);
  const bool tokens = work.dataset->kind() == DataKind::tokens;
  const auto stride = tokens ? static_cast<std::uint64_t>(arguments.context) : 1;
  const std::uint64_t elements = tokens ? stride + 1 : 1;
  work.sample_bytes = elements * work.files.front().element_bytes;
  const std::uint64_t max_samples = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(arguments.megabytes) * 1'000'000 / work.sample_bytes);
  std::vector<Place> in_order;
  std::uint64_t start = 0;
  for (std::size_t f = 0, i = 0; f < work.files.size(); ++f) {
    const StoredFile& file = work.files[f];
    const std::uint64_t end = start + file.count;
    for (; i * stride + elements <= end && in_order.size() < max_samples; ++i) {
      if (i * stride < start) continue;  // starts in the previous file
      in_order.push_back({static_cast<std::int64_t>(i), f,
                          file.offset + (i * stride - start) * file.element_bytes});
    }
    start = end;
  }
  if (in_order.empty())
    fail(ExitCode::data, "{}: no sample fits into one file; lower --context", arguments.path);
  const Permutation order(in_order.size(), 1, 0);
  for (std::size_t i = 0; i < in_order.size(); ++i)
    work.places.push_back(in_order[arguments.sequential ? i : order(i)]);
  return work;
}

MakeReader plain_reader(const Workload& work) {
  auto files = std::make_shared<std::vector<FileDescriptor>>();
  for (const StoredFile& file : work.files)
    files->push_back(open_for_reading(file.path, ExitCode::data));
  return [&work, files] {
    auto buffer = std::make_shared<std::vector<std::byte>>(work.sample_bytes);
    return [&work, files, buffer](std::size_t sample) {
      const Place& place = work.places[sample];
      const ssize_t got = ::pread((*files)[place.file].get(), buffer->data(), buffer->size(),
                                  static_cast<off_t>(place.offset));
      if (got != static_cast<ssize_t>(buffer->size()))
        system_failed("pread", "benchmark", ExitCode::data);
    };
  };
}

// The bytes as stored, ids checked: the same result as the other methods.
MakeReader stored_reader(const Workload& work, const DataBenchArguments& arguments) {
  std::shared_ptr<const TokenDataset> tokens;
  if (work.dataset->kind() == DataKind::tokens)
    tokens = std::make_shared<TokenDataset>(ShardSet(list_shards(arguments.path, "train")),
                                            arguments.context);
  return [&work, tokens] {
    auto buffer = std::make_shared<std::vector<std::byte>>(work.sample_bytes);
    return [&work, tokens, buffer](std::size_t sample) {
      const std::int64_t index = work.places[sample].sample;
      std::int32_t label = 0;
      tokens ? tokens->read_stored(index, *buffer)
             : work.dataset->read(index, *buffer, {&label, 1});
    };
  };
}

// For batches: inputs and targets as 32-bit integers.
MakeReader batch_reader(const Workload& work) {
  return [&work] {
    auto inputs = std::make_shared<std::vector<std::byte>>(work.dataset->layout().input_bytes());
    auto targets =
        std::make_shared<std::vector<std::int32_t>>(work.dataset->layout().targets.count());
    return [&work, inputs, targets](std::size_t sample) {
      work.dataset->read(work.places[sample].sample, *inputs, *targets);
    };
  };
}

void print_loader(const DataBenchArguments& arguments, const Workload& work, double plain) {
  const LoaderRates rates = measure_loader({.path = arguments.path,
                                            .context = arguments.context,
                                            .threads = arguments.threads,
                                            .samples = work.places.size(),
                                            .rounds = arguments.rounds,
                                            .seconds = arguments.seconds});
  const auto print = [&](const char* name, double rate) {
    print_reading_row(name, arguments.threads, rate, static_cast<double>(work.sample_bytes), plain);
  };
  print("Trireme loader, device batches", rates.later);
  const std::vector<Shard>& shards = work.dataset->shards();
  if (shards.empty() || shards.front().block_bytes == 0) return;
  print("  block checksums left alone", rates.later_unchecked);
  print("  first pass over the data", rates.first);
  print("  first pass, left alone", rates.first_unchecked);
  const auto text = [](const auto& cost) {
    return cost.share > 0
               ? fmt::format("{:.1f} % ({:.0f} ns a sample)", 100 * cost.share, cost.nanoseconds)
               : std::string("no more than the noise");
  };
  fmt::print(
      "  Block checksums, of the loader's processor time: {} in the first pass, {} after it\n",
      text(rates.first_cost), text(rates.later_cost));
}

void bench_packed(const DataBenchArguments& arguments) {
  const Workload work = make_workload(arguments);
  const bool tokens = work.dataset->kind() == DataKind::tokens;
  const bool shards = !work.dataset->shards().empty();
  fmt::print("{}: {} samples of {} bytes ({:.1f} MB), {} order, page cache warm\n", arguments.path,
             work.places.size(), work.sample_bytes,
             static_cast<double>(work.places.size() * work.sample_bytes) * 1e-6,
             arguments.sequential ? "sequential" : "shuffled");
  print_reading_head("MB/s", "of pread");
  std::vector<ReadingMethod> methods;
  for (const std::int64_t threads : {std::int64_t{1}, arguments.threads}) {
    if (threads == 1 && !methods.empty()) continue;
    methods.push_back({"plain pread", threads, plain_reader(work)});
    if (shards) methods.push_back({"Trireme reader", threads, stored_reader(work, arguments)});
    if (tokens) methods.push_back({"Trireme reader, int32 rows", threads, batch_reader(work)});
  }
  std::vector<std::size_t> order(work.places.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  run_rounds(methods, {order, arguments.rounds, arguments.seconds, 64});
  const auto bytes = static_cast<double>(work.sample_bytes);
  double plain = 0;
  for (const ReadingMethod& method : methods) {
    if (method.name == "plain pread") plain = method.best;
    print_reading_row(method.name, method.threads, method.best, bytes, plain);
  }
  plain = methods.front().best;
  print_loader(arguments, work, plain);
  if (!shards) return;  // nothing for h5py to read
  PeerScript h5py{
      arguments.python,
      arguments.script,
      "--h5py-script",
      {"--context", fmt::format("{}", arguments.context), "--megabytes",
       fmt::format("{}", arguments.megabytes), "--rounds", fmt::format("{}", arguments.rounds),
       "--seconds", fmt::format("{}", arguments.seconds)}};
  if (arguments.sequential) h5py.arguments.emplace_back("--sequential");
  for (const Shard& shard : work.dataset->shards())
    h5py.arguments.push_back(shard.path);
  print_peers(h5py, bytes, plain);
}

// Random bytes in an unnamed file if no data set is given.
void bench_synthetic(DataBenchArguments arguments) {
  const StagedDirectory scratch(
      (std::filesystem::temp_directory_path() / fmt::format("trireme-bench-{}", ::getpid()))
          .string(),
      false);
  const auto total = static_cast<std::uint64_t>(arguments.megabytes) * 500'000;
  TokenStream stream(scratch.path(), total, std::uint64_t{1} << 28, DType::u16);
  std::vector<std::uint32_t> block(std::size_t{1} << 18);
  const Philox random = Philox::keyed(1, RandomPurpose::test);
  stream.begin_document();
  for (std::uint64_t counter = 0; stream.left() > 0;) {
    for (std::size_t i = 0; i < block.size(); i += 4) {
      const auto words = random(0, counter++);
      std::ranges::transform(words, block.begin() + static_cast<std::ptrdiff_t>(i),
                             [](std::uint32_t two) { return two & 0x00FF00FFU; });
    }
    const auto tokens = std::as_bytes(std::span(block));
    stream.add(
        tokens.first(std::min<std::uint64_t>(tokens.size(), stream.left() * size_of(DType::u16))));
  }
  stream.finish();
  arguments.path = scratch.path();
  bench_packed(arguments);
}

void run_bench(const DataBenchArguments& arguments) {
  if (!arguments.fields.input.empty()) {
    FieldBench fields = arguments.fields;
    static_cast<BenchSize&>(fields) = arguments;
    fields.files = arguments.path;
    return bench_fields(fields);
  }
  if (arguments.path.empty()) return bench_synthetic(arguments);
  if (!names_images(arguments.path)) return bench_packed(arguments);
  ImageBench images = arguments.images;
  static_cast<BenchSize&>(images) = arguments;
  images.images = arguments.path;
  bench_images(images);
}

}  // namespace

void add_bench_data(CLI::App& bench_command) {
  auto* const command = bench_command.add_subcommand(
      "data", "Reading speed: plain pread, Trireme, h5py, PyTorch's DataLoader");
  const auto arguments = std::make_shared<DataBenchArguments>();
  command->add_option("path", arguments->path,
                      "Packed shards, tokens of Megatron-LM, or images in place: archives (*.tar, "
                      "directories of them, patterns) or class folders (default: random tokens in "
                      "the temporary directory)");
  add_value(*command, "--context", arguments->context, "Tokens per sample",
            integer_between(1, 1 << 20));
  add_value(*command, "--threads", arguments->threads, "Threads of the second group of rows",
            integer_between(1, 1024));
  add_value(*command, "--megabytes", arguments->megabytes, "Bytes read at most",
            integer_between(1, 1 << 20));
  add_value(*command, "--rounds", arguments->rounds, "Rounds per method; the best counts",
            integer_between(1, 1000));
  add_value(*command, "--seconds", arguments->seconds, "Seconds per round",
            number_between(0.001, 60));
  command->add_flag("--sequential", arguments->sequential, "Read in order instead of shuffled");
  command->add_option("--python", arguments->python, "Interpreter that has h5py")
      ->capture_default_str();
  command->add_option("--h5py-script", arguments->script, "The h5py side of the comparison")
      ->capture_default_str();
  auto* const input = command->add_option(
      "--input", arguments->fields.input,
      "Instead of packed shards: HDF5 files read in place, a sample a file; path of this data set");
  command->add_option("--target", arguments->fields.target, "Their labels, as data.target")
      ->needs(input);
  command->add_option("--axes", arguments->fields.axes, "Their axes, as data.axes")
      ->capture_default_str()
      ->needs(input);
  command->add_option("--h5py-files-script", arguments->fields.script, "The peers' side of it")
      ->capture_default_str();
  add_value(*command, "--side", arguments->images.side,
            "Height and width that images are cropped to", integer_between(1, 16384));
  command->add_option("--label", arguments->images.label, "Of archives of images, as data.label")
      ->capture_default_str();
  command->add_option("--torchvision-script", arguments->images.script, "The peers' side of images")
      ->capture_default_str();
  command->footer(
      "Examples: trireme bench data data/kjv --context 1024 --threads 4\n"
      "          trireme bench data data/deepcam/train --input climate/data --target "
      "climate/label\n"
      "          trireme bench data imagenet/train --threads 8 --side 224");
  on_one_process(*command, [arguments] {
    const MachineCheck machine(false);
    run_bench(*arguments);
    machine.finish(arguments->threads);
  });
}

}  // namespace trireme
