// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_images.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "data/pack/image_source.h"
#include "data/pack/output.h"
#include "data/pack/parallel.h"
#include "data/pack/pixels.h"
#include "data/pack/progress.h"
#include "data/pack/staged_directory.h"
#include "data/permutation.h"
#include "data/shard_writer.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t shard_bytes = std::uint64_t{1} << 30;
constexpr std::uint64_t block_bytes = std::uint64_t{16} << 20;

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
         "--labels: {} is a directory, whose folder names are the labels; leave --labels out",
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

// Reads images by index, brings them to one size, and writes them as shards.
class ImagePacker {
 public:
  ImagePacker(const ImageSource& source, const PackImagesOptions& options)
      : source_(source),
        options_(options),
        threads_(options.threads > 0 ? static_cast<std::size_t>(options.threads)
                                     : std::max(1U, std::thread::hardware_concurrency())),
        channels_(options.channels > 0 ? options.channels : source.natural_channels()) {}

  // The indices that decode, in order; the messages of the others go to `skipped`.
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

  // The image that sets the size of all when nothing is resized.
  void choose_size(std::size_t first) {
    size_model_ = first;
    const Pixels image = source_.load(first, channels_);
    height_ = options_.resize > 0 ? options_.resize : image.height;
    width_ = options_.resize > 0 ? options_.resize : image.width;
  }

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
    return static_cast<std::uint64_t>(height_ * width_ * channels_);
  }

  void write_shard(const std::string& directory, std::uint64_t index, std::uint64_t shards,
                   std::span<const std::size_t> order, Progress& progress) const {
    ShardHeader header;
    header.kind = DataKind::images;
    header.dtype = DType::u8;
    header.shard_index = index;
    header.shard_count = shards;
    header.count = order.size();
    header.height = static_cast<std::uint64_t>(height_);
    header.width = static_cast<std::uint64_t>(width_);
    header.channels = static_cast<std::uint64_t>(channels_);
    header.classes = source_.classes();
    ShardWriter writer(directory + "/" + shard_file_name(index), std::move(header));
    const std::size_t per_block =
        std::clamp<std::size_t>(block_bytes / image_bytes(), threads_, 1024);
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
    if (options_.resize > 0) image = resize_and_crop(image, options_.resize);
    if (image.height != height_ || image.width != width_) {
      fail(ExitCode::data,
           "{}: is {} x {}, but {} is {} x {}; give --resize to bring all images to one size",
           source_.name(index), image.height, image.width, source_.name(size_model_), height_,
           width_);
    }
    std::copy(image.data.begin(), image.data.end(), to.begin());
  }

  const ImageSource& source_;
  const PackImagesOptions& options_;
  std::size_t threads_;
  std::int64_t channels_;
  std::size_t size_model_ = 0;
  std::int64_t height_ = 0;
  std::int64_t width_ = 0;
};

std::vector<std::size_t> shuffled(const std::vector<std::size_t>& indices, std::uint64_t seed) {
  const Permutation order(indices.size(), seed, 0);
  std::vector<std::size_t> out;
  out.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i)
    out.push_back(indices[order(i)]);
  return out;
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
  const std::unique_ptr<ImageSource> source =
      folder ? open_image_folder(options.input, options.class_names, options.max_pixels)
             : open_idx(options.input, options.labels, options.class_names, stage.path());

  PackedImages packed;
  ImagePacker packer(*source, options);
  std::vector<std::size_t> indices(source->size());
  std::iota(indices.begin(), indices.end(), 0);
  if (options.skip_bad) indices = packer.without_bad(packed.skipped);
  packer.choose_size(indices.front());
  if (options.shuffle) indices = shuffled(indices, options.seed);

  Progress progress("packing", indices.size(), "images", options.progress);
  std::span<const std::size_t> left = indices;
  for (const auto& [name, size] : split_sizes(indices.size(), options.validation, "images")) {
    PackedSplit split{name.empty() ? target : target + "/" + name, size, 0, 0};
    split.shards =
        packer.write(name.empty() ? stage.path() : stage.add(name), left.first(size), progress);
    left = left.subspan(size);
    packed.splits.push_back(std::move(split));
  }
  stage.commit();
  return packed;
}

}  // namespace trireme
