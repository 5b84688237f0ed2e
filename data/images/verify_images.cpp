// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "data/files/parallel.h"
#include "data/images/image_sources.h"
#include "data/images/inspect_images.h"

namespace trireme {
namespace {

void decode_all(ImageIndex index, ShardReport& report, const ByteProgress& progress) {
  const ImageOptions options{.height = 1, .width = 1};
  std::vector<ImageIndex> alone;
  alone.push_back(std::move(index));
  const ImageFilesDataset data(std::move(alone), {}, options);
  std::vector<std::string> problems(static_cast<std::size_t>(data.size()));
  parallel_for(problems.size(), usable_cores(), [&](std::size_t i) {
    const auto sample = static_cast<std::int64_t>(i);
    thread_local std::vector<std::byte> stored;
    try {
      data.read_stored(sample, stored);
      static_cast<void>(decode_image(stored, options.channels, options.max_pixels(),
                                     fmt::format("sample {}", sample)));
    } catch (const DamagedImage& error) {
      problems[i] = fmt::format("{}: {}", data.place_of(sample), error.what());
    } catch (const Error& error) {
      problems[i] = error.what();
    }
    progress(stored.size());
  });
  for (std::string& problem : problems) {
    if (!problem.empty()) report.add(std::move(problem));
  }
}

}  // namespace

std::vector<ShardReport> verify_images(const DataPlace& place, const StartProgress& start) {
  const ImageScan scan{find_images(place.names),
                       label_rule(place.label.empty() ? ImageFilesSource{}.label : place.label)};
  const std::vector<std::string>& paths = scan.sources.paths;
  std::vector<ImageIndex> indexes(paths.size());
  std::vector<ShardReport> reports(paths.size());
  parallel_for(paths.size(), usable_cores(), [&](std::size_t i) {
    reports[i].path = paths[i];
    try {
      indexes[i] = scan_images(scan, std::span(paths).subspan(i, 1), 1).front();
    } catch (const Error& error) {
      reports[i].add(error.what());
    }
  });
  std::uint64_t bytes = 0;
  for (const ImageIndex& index : indexes)
    bytes += index.image_bytes();
  const ByteProgress progress = start("decoding", bytes);
  for (std::size_t i = 0; i < indexes.size(); ++i) {
    for (std::string& problem : std::exchange(indexes[i].problems, {}))
      reports[i].add(std::move(problem));
    reports[i].bytes = indexes[i].image_bytes();
    if (!indexes[i].images.empty()) decode_all(std::move(indexes[i]), reports[i], progress);
  }
  return reports;
}

}  // namespace trireme
