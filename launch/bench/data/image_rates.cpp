// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "data/images/files_dataset.h"
#include "data/loader/sampler.h"
#include "launch/bench/data/loader_rates.h"
#include "launch/bench/data/reading.h"
#include "runtime/base/clock.h"

namespace trireme {
namespace {

struct ImageWork {
  std::unique_ptr<ImageFilesDataset> data;
  std::vector<std::size_t> order;
  double bytes = 0;  // mean stored size of a sample
};

ImageWork make_image_work(const ImageBench& bench, const ImageOptions& options) {
  ImageWork work;
  const auto start = std::chrono::steady_clock::now();
  work.data = open_image_files(options, static_cast<std::size_t>(bench.threads));
  fmt::print("{} images in {} archives or class folders, indexed by {} threads in {:.3f} s\n",
             work.data->size(), work.data->indexes().size(), bench.threads, seconds_since(start));
  std::uint64_t bytes = 0;
  for (const ImageIndex& index : work.data->indexes())
    bytes += index.image_bytes();
  const auto size = static_cast<std::uint64_t>(work.data->size());
  work.bytes = static_cast<double>(bytes) / static_cast<double>(size);
  const double limit = static_cast<double>(bench.megabytes) * 1e6 / work.bytes;
  const auto samples =
      static_cast<std::uint64_t>(std::clamp(limit, 1.0, static_cast<double>(size)));
  // A random sample of all data.
  const Permutation order(size, 1, 0);
  for (std::uint64_t i = 0; i < samples; ++i)
    work.order.push_back(static_cast<std::size_t>(order(i)));
  return work;
}

// `read` receives a sample's stored bytes.
template <typename Read>
std::function<ReadOne()> stored_reader(const ImageWork& work, Read read) {
  return [&work, read] {
    auto stored = std::make_shared<std::vector<std::byte>>();
    return [&work, read, stored](std::size_t sample) {
      work.data->read_stored(static_cast<std::int64_t>(sample), *stored);
      read(*stored);
    };
  };
}

std::function<ReadOne()> sample_reader(const ImageWork& work) {
  return [&work] {
    auto memory = std::make_shared<std::vector<std::byte>>(work.data->layout().input_bytes());
    auto epoch = std::make_shared<std::int64_t>(0);
    return [&work, memory, epoch](std::size_t sample) {
      std::int32_t label = 0;
      work.data->read_in_epoch((*epoch)++, static_cast<std::int64_t>(sample), *memory, {&label, 1});
    };
  };
}

}  // namespace

void bench_images(const ImageBench& bench) {
  const ImageOptions options{.source = {.images = {bench.images}, .label = bench.label},
                             .height = bench.side,
                             .width = bench.side,
                             .crop = CropRange{},
                             .seed = 1};
  const ImageWork work = make_image_work(bench, options);
  fmt::print("{} samples of {:.1f} kB to {} x {}; shuffled, page cache warm\n", work.order.size(),
             work.bytes * 1e-3, bench.side, bench.side);
  print_reading_head("stored MB/s", "of decoding");
  std::vector<ReadingMethod> methods;
  for (const std::int64_t threads : {std::int64_t{1}, bench.threads}) {
    if (threads == 1 && !methods.empty()) continue;
    methods.push_back({"pread of the stored bytes", threads, stored_reader(work, [](auto&) {})});
    methods.push_back({"decode all of it", threads,
                       stored_reader(work, [&options](const std::vector<std::byte>& stored) {
                         static_cast<void>(decode_image(stored, options.channels,
                                                        options.max_pixels(), "benchmark"));
                       })});
    methods.push_back({"Trireme reader, random crops", threads, sample_reader(work)});
  }
  run_rounds(methods, {work.order, bench.rounds, bench.seconds});
  double decoding = 0;
  for (std::size_t i = 0; i < methods.size(); ++i) {
    if (i % 3 == 0) decoding = methods[i + 1].best;
    print_reading_row(methods[i].name, methods[i].threads, methods[i].best, work.bytes, decoding);
  }
  double loader = 0;
  for (std::int64_t round = 0; round < bench.rounds; ++round)
    loader = std::max(loader, loader_rate(*work.data, bench.threads, bench.seconds));
  print_reading_row("Trireme loader, device batches", bench.threads, loader, work.bytes, decoding);
  print_peers({bench.python,
               bench.script,
               "--torchvision-script",
               {"--side", fmt::format("{}", bench.side), "--workers",
                fmt::format("{}", bench.threads), "--rounds", fmt::format("{}", bench.rounds),
                "--seconds", fmt::format("{}", bench.seconds), bench.images}},
              work.bytes, decoding);
}

}  // namespace trireme
