// SPDX-License-Identifier: Apache-2.0
// The part of a config and model that reading HDF5 files needs.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/config/data_source.h"
#include "runtime/config/target_spec.h"

namespace trireme {

// Of one channel: (value - subtract) * multiply.
struct ChannelScale {
  std::vector<float> subtract,
      multiply;  // per channel read; empty: unscaled
};

inline constexpr std::string_view split_by_name = "name";

enum class Subset : std::uint8_t { all, training, validation };

inline constexpr std::int64_t any_depth = -1;

struct FieldOptions : FieldSource {
  ChannelScale scale{};
  float masked = 0.0F;  // value of masked inputs after scaling
  Subset subset = Subset::all;
  bool random = false;     // for training: samples differ from pass to pass
  std::uint64_t seed = 0;  // of these differences
  // Of the model; 0: any.
  std::int64_t height = 0, width = 0, channel_count = 0;
  // Of the model's volumes, or any_depth; 0: samples are images, and depths are channels.
  std::int64_t depth = 0;
  // The first slice (of volumes), row and column of each sample's inputs that this rank reads, and
  // their numbers; empty: all. Targets are read whole.
  struct Part {
    std::array<std::int64_t, 3> first{}, count{1, 1, 1};
  };
  std::optional<Part> part{};
  // Of the model; without a shape, or as maps with the last extent 0, as many values as the files
  // have.
  TargetSpec predicted{TargetKind::label, Shape{}, 0};
};

}  // namespace trireme
