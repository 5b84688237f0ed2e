// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/data_sets.h"

#include <algorithm>
#include <unordered_map>

#include "data/fields/index_store.h"
#include "data/images/image_sources.h"
#include "data/index_archive.h"
#include "launch/engine/shared_index.h"
#include "models/registry.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

// Rank 0's findings.
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

// "a.tar and 2 more were", as Dataset::touched() has it.
std::string touched_since(const std::vector<ImageIndex>& before,
                          const std::vector<ImageIndex>& now) {
  std::unordered_map<std::string_view, const ImageIndex*> places;
  for (const ImageIndex& index : now)
    places.emplace(index.path, &index);
  std::vector<std::string> touched;
  for (const ImageIndex& index : before) {
    const auto found = places.find(index.path);
    if (found != places.end())
      std::ranges::move(touched_files(index, *found->second), std::back_inserter(touched));
  }
  return first_of(touched);
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
    log::get("data").warn("{} more folders have files that were left out", count - most_shown);
}

}  // namespace

ImageOptions image_options(const Config& config, const DataSource& data, DataPart part) {
  const ModelTraits traits = traits_of(config.model);
  ImageOptions options{.source = data,
                       .height = traits.image_size,
                       .width = traits.image_width,
                       .channels = traits.channels,
                       .classes = traits.classes,
                       .seed = config.run.seed,
                       .damaged = data.damaged};
  options.source.images = data.place(part).names;
  if (part == DataPart::training && !data.crop_scale.empty())
    options.crop = CropRange{{data.crop_scale[0], data.crop_scale[1]},
                             {data.crop_ratio[0], data.crop_ratio[1]}};
  return options;
}

std::unique_ptr<ImageFilesDataset> open_images(Communicator& world, const ImageOptions& options,
                                               const std::string& index_file) {
  const ImageScan scan{shared_sources(world, options.source.images),
                       label_rule(options.source.label)};
  std::vector<ImageIndex> stale;
  IndexWork work;
  work.list = [&] { return scan.sources.paths; };
  work.known = [&](const std::vector<std::string>& /*files*/) {
    std::unordered_map<std::string, std::string> known;
    KeptImages kept = kept_images(index_file, scan);
    stale = std::move(kept.stale);
    for (ImageIndex& index : kept.good) {
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
  std::string touched = broadcast_text(world, touched_since(stale, indexes), 0);
  auto images =
      std::make_unique<ImageFilesDataset>(std::move(indexes), scan.sources.classes, options);
  images->set_touched(std::move(touched));
  return images;
}

}  // namespace trireme
