// SPDX-License-Identifier: Apache-2.0
// Packs labelled images into image shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/pack/pack_text.h"

namespace trireme {

struct PackImagesOptions {
  std::string
      input;  // a directory of class folders, per split or not, or an IDX file (plain or gzip)
  std::string labels;  // the IDX file of labels; with an IDX input only
  std::string output;
  std::string split;  // empty, or the subdirectory of `output` to write
  // This fraction of the images goes to output/validation, the rest to output/train; 0: all to
  // output/train.
  std::optional<double> validation;
  std::int64_t resize = 0;    // 0: all images must have one size already
  std::int64_t channels = 0;  // 1 grey, 3 RGB, 0: those of the source (folders: 3)
  std::vector<std::string> class_names;
  bool shuffle = true;  // before splitting and sharding, by `seed`
  std::uint64_t seed = 0;
  bool skip_bad = false;  // skip images that cannot be decoded instead of stopping
  std::uint64_t max_pixels = std::uint64_t{1} << 27;
  std::uint64_t shard_images = 0;  // 0: about 1 GiB per shard
  std::int64_t threads = 0;        // for decoding; 0: one per core
  bool force = false;
  bool progress = false;
};

struct PackedImages {
  std::vector<PackedSplit> splits;
  std::vector<std::string> skipped;  // messages, one per skipped image
};

// Errors as for pack_text. The result does not depend on the number of threads.
[[nodiscard]] PackedImages pack_images(const PackImagesOptions& options);

}  // namespace trireme
