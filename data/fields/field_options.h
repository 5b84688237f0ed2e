// SPDX-License-Identifier: Apache-2.0
// What a run reads of HDF5 files: the keys of the config's data section, as this room takes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

// Of one channel: (value - subtract) * multiply.
struct ChannelScale {
  std::vector<float> subtract,
      multiply;  // of the channels that are read; empty: values as they are
};

inline constexpr std::string_view split_by_name = "name";

enum class Subset : std::uint8_t { all, training, validation };

struct FieldOptions {
  std::vector<std::string> files{};  // files, directories, patterns
  SampleUnit samples = SampleUnit::file;
  std::vector<std::string> inputs{};
  std::string target{};
  std::string mask{};    // 0 where inputs are left out; "" for none
  std::string weight{};  // of a sample's loss; "" for none
  std::string axes = "HWC";
  std::vector<std::int64_t> channels{};  // empty: all
  std::vector<std::int64_t> crop{};      // top, left, height, width; empty: all
  std::int64_t window = 0;               // 0: all steps
  std::int64_t window_stride = 1;
  std::int64_t steps_ahead = 0;
  bool bfloat16 = false;
  bool mask_and_scale = true;
  bool outside_links = false;
  ChannelScale scale{};
  float masked = 0.0F;  // what inputs become where the mask is 0, after scaling
  NotFinite not_finite = NotFinite::refuse;
  Damaged damaged = Damaged::refuse;
  std::size_t cache_bytes = std::size_t{256} << 20;
  // Of the samples, in a random order that depends on nothing, this share is for validation.
  double validation_fraction = 0;
  // Or the samples whose key is one of these, and the rest for training without those of `test`.
  std::string split_key{};  // a field as `target`, or "name": of the file or group
  std::vector<std::string> validation_values{}, test_values{};  // texts and names: patterns
  Subset subset = Subset::all;
  // Labels that are text: in this order; empty: all that there are, sorted.
  std::vector<std::string> class_names{};
  // Of the model; 0: any.
  std::int64_t height = 0, width = 0, channel_count = 0, classes = 0;
};

}  // namespace trireme
