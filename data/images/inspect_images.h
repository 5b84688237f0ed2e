// SPDX-License-Identifier: Apache-2.0
// Archives and class folders of images in words, and as a config.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/images/files_dataset.h"
#include "data/images/image_sources.h"
#include "data/kinds.h"

namespace trireme {

// Images as they are, whatever is wrong with some of them.
struct SeenImages {
  std::unique_ptr<ImageFilesDataset> data;  // as for evaluation, at the requested size
  std::vector<std::string> problems;        // of the index; not in `data`
};
// `options`: images, label, height and width. Raises ExitCode::data if no image has a label.
[[nodiscard]] SeenImages see_images(const ImageOptions& options);

// Full sizes of at most `most` evenly spread images, without those that do not decode.
[[nodiscard]] std::vector<ImageSize> some_sizes(const ImageFilesDataset& data, std::int64_t most);

// Describes the images at the names: counts, labels, sizes, problems, a line per archive or class
// folder, and the first `preview` images as characters.
[[nodiscard]] Description inspect_images(const DataPlace& place);

// A config that trains on the names, after comments. Without a label: guesses it from the first
// archive. For a directory with the splits train and val or validation it takes both.
[[nodiscard]] Description describe_images(const DataPlace& place);

// Decodes all of every image: of a run's crops, parts alone do. A report of each archive or class
// folder, with all that is wrong in it. Progress may come from any thread.
[[nodiscard]] std::vector<ShardReport> verify_images(const DataPlace& place,
                                                     const StartProgress& start);

}  // namespace trireme
