// SPDX-License-Identifier: Apache-2.0
// Archives and class folders of images in words, and as a config.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/fields/describe.h"
#include "data/images/files_dataset.h"
#include "data/images/image_sources.h"

namespace trireme {

// Images as they are, whatever is wrong with some of them.
struct SeenImages {
  std::unique_ptr<ImageFilesDataset> data;  // as for evaluation, at the size asked for
  std::vector<std::string> problems;        // of the index; not in `data`
};
// `options`: images, label, height and width. Raises ExitCode::data where no image has a label.
[[nodiscard]] SeenImages see_images(const ImageOptions& options, std::size_t threads);

// Full sizes of evenly spread images, at most `most`, those that do not decode left out.
[[nodiscard]] std::vector<ImageSize> some_sizes(const ImageFilesDataset& data, std::int64_t most);

// What `names` stands for: counts, labels, sizes, what is wrong or left out, a line per archive or
// class folder, and the first `preview` images as characters.
[[nodiscard]] std::string inspect_images(const std::vector<std::string>& names,
                                         const LabelRule& rule, std::uint64_t preview,
                                         std::size_t threads);

// A config that trains on `names` as it stands, below comments. `label`: as data.label; "": what
// the first archive seems to have. Of one directory with the splits train and val or validation
// it takes both.
[[nodiscard]] Description describe_images(const std::vector<std::string>& names, std::string label,
                                          std::size_t threads);

}  // namespace trireme
