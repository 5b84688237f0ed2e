// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/image_sets.h"

#include <unordered_map>

#include "data/images/image_sources.h"
#include "data/index_archive.h"
#include "models/registry.h"
#include "runtime/base/log.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/engine/shared_index.h"

namespace trireme {
namespace {

// What rank 0 finds.
ImageSources shared_sources(Communicator& world, const std::vector<std::string>& names) {
  std::string bytes;
  if (world.rank() == 0) {
    ImageSources found = find_images(names);
    IndexWriter writer(bytes);
    writer(found.paths);
    writer(found.classes);
  }
  bytes = broadcast_text(world, std::move(bytes), 0);
  ImageSources sources;
  IndexParser parser(bytes, "a list of images");
  parser(sources.paths);
  parser(sources.classes);
  return sources;
}

void report_notes(const std::vector<ImageIndex>& indexes) {
  constexpr std::size_t most_shown = 20;
  std::size_t count = 0;
  for (const ImageIndex& index : indexes) {
    for (const std::string& note : index.notes) {
      if (count++ < most_shown) log::get("data").warn("{}", note);
    }
  }
  if (count > most_shown)
    log::get("data").warn("{} more folders hold what was left out", count - most_shown);
}

}  // namespace

ImageOptions image_options(const Config& config, const DataSource& data, bool training) {
  const ModelTraits traits = traits_of(config.model);
  ImageOptions options{.images = training ? data.images : data.validation_images,
                       .label = data.label,
                       .height = traits.image_size,
                       .width = traits.image_width,
                       .channels = traits.channels,
                       .classes = traits.classes,
                       .seed = config.run.seed,
                       .resize = data.eval_resize,
                       .damaged = data.damaged,
                       .max_pixels = static_cast<std::uint64_t>(data.max_pixels)};
  if (training && !data.crop_scale.empty())
    options.crop = CropRange{{data.crop_scale[0], data.crop_scale[1]},
                             {data.crop_ratio[0], data.crop_ratio[1]}};
  return options;
}

std::unique_ptr<ImageFilesDataset> open_images(Communicator& world, const ImageOptions& options,
                                               const std::string& index_file) {
  const ImageScan scan{shared_sources(world, options.images), label_rule(options.label)};
  IndexWork work;
  work.list = [&] { return scan.sources.paths; };
  work.known = [&](const std::vector<std::string>& /*files*/) {
    std::unordered_map<std::string, std::string> known;
    for (ImageIndex& index : kept_image_indexes(index_file, scan)) {
      const std::string path = index.path;
      known.emplace(path, bytes_of(std::move(index)));
    }
    return known;
  };
  work.scan = [&](std::span<const std::string> files, std::size_t threads) {
    std::vector<std::string> texts;
    for (ImageIndex& index : scan_images(scan, files, threads))
      texts.push_back(bytes_of(std::move(index)));
    return texts;
  };
  std::vector<ImageIndex> indexes;
  for (const std::string& text : share_indexes(world, work))
    indexes.push_back(parse_image_index(text));
  if (world.rank() == 0) report_notes(indexes);
  return std::make_unique<ImageFilesDataset>(std::move(indexes), scan.sources.classes, options);
}

void keep_image_index(const std::string& index_file, const ImageFilesDataset& dataset,
                      const std::string& label) {
  keep_image_indexes(index_file, {{{}, dataset.classes()}, label_rule(label)}, dataset.indexes());
}

}  // namespace trireme
