// SPDX-License-Identifier: Apache-2.0
// Sources of images to pack.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/images/decode.h"

namespace trireme {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  [[nodiscard]] virtual std::size_t size() const = 0;
  // Image `index` with 1 (grey) or 3 (RGB) channels. Thread-safe. Raises ExitCode::data naming the
  // file.
  [[nodiscard]] virtual Pixels load(std::size_t index, std::int64_t channels) const = 0;
  [[nodiscard]] virtual std::int32_t label(std::size_t index) const = 0;  // in [0, classes)
  [[nodiscard]] virtual std::string name(std::size_t index) const = 0;
  [[nodiscard]] virtual const std::vector<std::string>& classes() const = 0;
  [[nodiscard]] virtual std::int64_t natural_channels() const = 0;

 protected:
  ImageSource() = default;
};

// An IDX file of unsigned bytes, (N, H, W) or (N, H, W, C), plain or gzip, and the IDX file of its
// labels. `class_names` may be empty: then the classes are "0".."<largest label>". Decompressed
// images go to unnamed storage in `spool_directory`. Raises ExitCode::data for invalid input.
[[nodiscard]] std::unique_ptr<ImageSource> open_idx(const std::string& images,
                                                    const std::string& labels,
                                                    std::vector<std::string> class_names,
                                                    const std::string& spool_directory);

struct SplitSource {
  std::string name;  // train, validation, test; empty if the input is not split
  std::unique_ptr<ImageSource> source;
};

// The images of a directory (image_tree.h), one source per split, all with the same classes.
// Refuses images larger than `max_pixels` before decoding them.
[[nodiscard]] std::vector<SplitSource> open_image_folder(
    const std::string& directory, const std::vector<std::string>& class_names,
    std::uint64_t max_pixels);

}  // namespace trireme
