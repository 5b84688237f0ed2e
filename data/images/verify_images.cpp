// SPDX-License-Identifier: Apache-2.0
#include "data/images/verify_images.h"

#include <utility>

#include "data/images/files_dataset.h"
#include "data/pack/parallel.h"

namespace trireme {

ImageVerifier::ImageVerifier(const std::vector<std::string>& names, const LabelRule& rule,
                             std::size_t threads)
    : threads_(threads) {
  const ImageScan scan{find_images(names), rule};
  const std::vector<std::string>& paths = scan.sources.paths;
  indexes_.resize(paths.size());
  reports_.resize(paths.size());
  parallel_for(paths.size(), threads, [&](std::size_t i) {
    reports_[i].path = paths[i];
    try {
      indexes_[i] = scan_images(scan, std::span(paths).subspan(i, 1), 1).front();
    } catch (const Error& error) {
      reports_[i].add(error.what());
    }
  });
}

std::uint64_t ImageVerifier::bytes() const {
  std::uint64_t bytes = 0;
  for (const ImageIndex& index : indexes_)
    bytes += index.image_bytes();
  return bytes;
}

std::vector<ShardReport> ImageVerifier::run(const ByteProgress& progress) {
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    for (std::string& problem : std::exchange(indexes_[i].problems, {}))
      reports_[i].add(std::move(problem));
    reports_[i].bytes = indexes_[i].image_bytes();
    if (!indexes_[i].images.empty()) decode_all(std::move(indexes_[i]), reports_[i], progress);
  }
  return std::exchange(reports_, {});
}

void ImageVerifier::decode_all(ImageIndex index, ShardReport& report,
                               const ByteProgress& progress) const {
  const ImageOptions options{.height = 1, .width = 1};
  std::vector<ImageIndex> alone;
  alone.push_back(std::move(index));
  const ImageFilesDataset data(std::move(alone), {}, options);
  std::vector<std::string> problems(static_cast<std::size_t>(data.size()));
  parallel_for(problems.size(), threads_, [&](std::size_t i) {
    const auto sample = static_cast<std::int64_t>(i);
    thread_local std::vector<std::byte> stored;
    try {
      data.read_stored(sample, stored);
      static_cast<void>(decode_image(stored, options.channels, options.max_pixels,
                                     fmt::format("sample {}", sample)));
    } catch (const DamagedImage& error) {
      problems[i] = fmt::format("{}: {}", data.place_of(sample), error.what());
    } catch (const Error& error) {
      problems[i] = error.what();
    }
    if (progress) progress(stored.size());
  });
  for (std::string& problem : problems) {
    if (!problem.empty()) report.add(std::move(problem));
  }
}

}  // namespace trireme
