// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_images.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "data/files/parallel.h"
#include "data/images/resample.h"
#include "data/loader/sampler.h"
#include "data/pack/images/image_source.h"
#include "data/pack/progress.h"
#include "data/pack/staged_directory.h"
#include "data/shard/shard_writer.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t shard_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t images_in_memory = std::uint64_t{16} << 20;

void check_options(const PackImagesOptions& options, bool folder) {
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) {
    fail(ExitCode::config, "--channels: {} is not allowed; use 1 (grey) or 3 (RGB)",
         options.channels);
  }
  if (options.resize < 0 || options.resize > 65536) {
    fail(ExitCode::config, "--resize: {} is not allowed; use 1 to 65536", options.resize);
  }
  if (options.threads < 0)
    fail(ExitCode::config, "--threads: {} is not allowed; use 1 or more", options.threads);
  if (folder && !options.labels.empty()) {
    fail(ExitCode::config,
         "--labels: {} is a directory, and its folder names are the labels; remove --labels",
         options.input);
  }
  if (!folder && options.labels.empty()) {
    fail(ExitCode::config, "--labels: {} is a file, which needs the IDX file of its labels",
         options.input);
  }
  for (const std::string& name : options.class_names) {
    if (name.empty() || name.find('\n') != std::string::npos) {
      fail(ExitCode::config,
           "--class-names: '{}' is not allowed; names are not empty and have no line break", name);
    }
    if (std::count(options.class_names.begin(), options.class_names.end(), name) > 1) {
      fail(ExitCode::config, "--class-names: '{}' is given twice", name);
    }
  }
  check_output_options(options.output, options.split, options.validation);
  check_output_outside(options.output, options.input);
}

// The size of all packed images, and the image that set it if there is no resizing.
struct PackedSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::string model;
};

// Reads images by index, resizes them, and writes them as shards.
class ImagePacker {
 public:
  ImagePacker(const ImageSource& source, const PackImagesOptions& options)
      : source_(source),
        options_(options),
        threads_(options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                     : std::max(1U, std::thread::hardware_concurrency())),
        channels_(options.channels > 0 ? options.channels : source.natural_channels()) {}

  // The indices that can be decoded, in order; messages about the others go to `skipped`.
  std::vector<std::size_t> without_bad(std::vector<std::string>& skipped) const {
    std::vector<std::string> problems(source_.size());
    Progress progress("checking", source_.size(), "images", options_.progress);
    parallel_for(source_.size(), threads_, [&](std::size_t i) {
      try {
        static_cast<void>(source_.load(i, channels_));
      } catch (const Error& error) {
        if (error.code() != ExitCode::data) throw;
        problems[i] = error.what();
      }
      progress.add(1);
    });
    std::vector<std::size_t> good;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      problems[i].empty() ? good.push_back(i) : skipped.push_back(std::move(problems[i]));
    }
    if (good.empty())
      fail(ExitCode::data, "{}: no image can be decoded; the first: {}", options_.input,
           skipped.front());
    return good;
  }

  // The size of one image, or the requested size.
  [[nodiscard]] PackedSize size_of(std::size_t index) const {
    if (options_.resize > 0) return {options_.resize, options_.resize, source_.name(index)};
    const Pixels image = source_.load(index, channels_);
    return {image.height, image.width, source_.name(index)};
  }
  void set_size(PackedSize size) { size_ = std::move(size); }

  std::uint64_t write(const std::string& directory, std::span<const std::size_t> order,
                      Progress& progress) const {
    const std::uint64_t per_shard = options_.shard_images > 0
                                        ? options_.shard_images
                                        : std::max<std::uint64_t>(1, shard_bytes / image_bytes());
    const std::uint64_t shards = (order.size() - 1) / per_shard + 1;
    for (std::uint64_t i = 0; i < shards; ++i) {
      write_shard(directory, i, shards,
                  order.subspan(i * per_shard, std::min(per_shard, order.size() - i * per_shard)),
                  progress);
    }
    return shards;
  }

 private:
  [[nodiscard]] std::uint64_t image_bytes() const {
    return static_cast<std::uint64_t>(size_.height * size_.width * channels_);
  }

  void write_shard(const std::string& directory, std::uint64_t index, std::uint64_t shards,
                   std::span<const std::size_t> order, Progress& progress) const {
    ShardHeader header;
    header.kind = DataKind::images;
    header.dtype = DType::u8;
    header.shard_index = index;
    header.shard_count = shards;
    header.count = order.size();
    header.height = static_cast<std::uint64_t>(size_.height);
    header.width = static_cast<std::uint64_t>(size_.width);
    header.channels = static_cast<std::uint64_t>(channels_);
    header.classes = source_.classes();
    ShardWriter writer(directory + "/" + shard_file_name(index), std::move(header));
    const std::size_t per_block =
        std::clamp<std::size_t>(images_in_memory / image_bytes(), threads_, 1024);
    std::vector<std::uint8_t> block(per_block * image_bytes());
    for (std::size_t done = 0; done < order.size(); done += per_block) {
      const auto part = order.subspan(done, std::min(per_block, order.size() - done));
      parallel_for(part.size(), threads_, [&](std::size_t i) {
        load_into(part[i], std::span(block).subspan(i * image_bytes(), image_bytes()));
        progress.add(1);
      });
      writer.write(block.data(), part.size());
    }
    std::vector<std::int32_t> labels;
    for (const std::size_t i : order)
      labels.push_back(source_.label(i));
    writer.finish(labels);
  }

  void load_into(std::size_t index, std::span<std::uint8_t> to) const {
    Pixels image = source_.load(index, channels_);
    if (options_.resize > 0) image = resize_and_crop(std::move(image), options_.resize);
    if (image.height != size_.height || image.width != size_.width) {
      fail(ExitCode::data,
           "{}: is {} x {}, but {} is {} x {}; give --resize to bring all images to one size",
           source_.name(index), image.height, image.width, size_.model, size_.height, size_.width);
    }
    std::copy(image.data.begin(), image.data.end(), to.begin());
  }

  const ImageSource& source_;
  const PackImagesOptions& options_;
  std::size_t threads_;
  std::int64_t channels_;
  PackedSize size_;
};

std::vector<std::size_t> shuffled(const std::vector<std::size_t>& indices, std::uint64_t seed) {
  const Permutation order(indices.size(), seed, 0);
  std::vector<std::size_t> out;
  out.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i)
    out.push_back(indices[order(i)]);
  return out;
}

// The images of one source, in writing order.
struct Packing {
  std::string split;  // of the input
  ImagePacker packer;
  std::vector<std::size_t> order;
};

std::vector<Packing> choose_images(const std::vector<SplitSource>& sources,
                                   const PackImagesOptions& options,
                                   std::vector<std::string>& skipped) {
  std::vector<Packing> all;
  for (const SplitSource& it : sources) {
    Packing packing{it.name, ImagePacker(*it.source, options), {}};
    packing.order.resize(it.source->size());
    std::iota(packing.order.begin(), packing.order.end(), 0);
    if (options.skip_bad) packing.order = packing.packer.without_bad(skipped);
    all.push_back(std::move(packing));
  }
  const PackedSize size = all.front().packer.size_of(all.front().order.front());
  for (Packing& packing : all) {
    packing.packer.set_size(size);
    if (options.shuffle) packing.order = shuffled(packing.order, options.seed);
  }
  return all;
}

void check_splits(const std::vector<SplitSource>& sources, const PackImagesOptions& options) {
  if (sources.front().name.empty() || (options.split.empty() && !options.validation)) return;
  fail(ExitCode::config,
       "{}: {} already contains splits ({}/{} and so on); remove the option, or pack only one "
       "split, with --classes-of for the classes of another",
       options.split.empty() ? "--validation" : "--split", options.input, options.input,
       sources.front().name);
}

std::vector<SplitSource> open_input(const PackImagesOptions& options, bool folder,
                                    const std::string& spool_directory) {
  if (folder) return open_image_folder(options.input, options.class_names, options.max_pixels);
  std::vector<SplitSource> sources;
  sources.push_back(
      {"", open_idx(options.input, options.labels, options.class_names, spool_directory)});
  return sources;
}

}  // namespace

PackedImages pack_images(const PackImagesOptions& options) {
  std::error_code error;
  const auto type = std::filesystem::status(options.input, error).type();
  if (type == std::filesystem::file_type::not_found)
    fail(ExitCode::data, "{}: no such file or directory", options.input);
  const bool folder = type == std::filesystem::file_type::directory;
  check_options(options, folder);
  const std::string target = output_of(options.output, options.split);
  StagedDirectory stage(target, options.force);
  const std::vector<SplitSource> sources = open_input(options, folder, stage.path());
  check_splits(sources, options);
  for (const SplitSource& it : sources)
    require_class_names(options.input, it.source->classes());

  PackedImages packed;
  const std::vector<Packing> all = choose_images(sources, options, packed.skipped);
  std::size_t total = 0;
  for (const Packing& packing : all)
    total += packing.order.size();
  Progress progress("packing", total, "images", options.progress);
  const auto write = [&](const std::string& split, const ImagePacker& packer,
                         std::span<const std::size_t> order) {
    const std::string directory = split.empty() ? stage.path() : stage.add(split);
    packed.splits.push_back({split.empty() ? target : target + "/" + split, order.size(), 0,
                             packer.write(directory, order, progress)});
  };
  for (const Packing& packing : all) {
    std::span<const std::size_t> left = packing.order;
    if (!packing.split.empty()) {
      write(packing.split, packing.packer, left);
      continue;
    }
    for (const auto& [name, size] : split_sizes(left.size(), options.validation, "images")) {
      write(name, packing.packer, left.first(size));
      left = left.subspan(size);
    }
  }
  stage.commit();
  return packed;
}

}  // namespace trireme
