// SPDX-License-Identifier: Apache-2.0
// Position of a sample's channels, rows and columns in its input data sets. A pure function of
// extents and options.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/fields/field_options.h"
#include "data/fields/storage/field_index.h"
#include "data/fields/storage/field_reader.h"

namespace trireme {

// The index of each axis in a data set; -1: it has none.
struct AxisPlaces {
  int sample = -1, step = -1, channel = -1, row = -1, column = -1;
  std::size_t axes = 0;
};
[[nodiscard]] AxisPlaces axis_places(const std::string& axes);

// Channels read together from one input: a box of steps and channels. Each goes to a channel of the
// sample, or with -1 nowhere.
struct ChannelRead {
  std::size_t input = 0;
  std::uint64_t first_step = 0, steps = 1;  // relative to the window's start
  std::uint64_t first_channel = 0, channels = 1;
  std::vector<std::int64_t> to;  // (steps, channels)
};

class SampleShape {
 public:
  // For the inputs of one unit. Raises ExitCode::data, beginning with `subject`, if their axes are
  // not those of options.axes, they differ, or the selection does not exist.
  SampleShape(const std::string& subject, std::span<const StoredField> inputs,
              const FieldOptions& options);

  [[nodiscard]] const AxisPlaces& places() const { return places_; }
  [[nodiscard]] std::int64_t height() const { return height_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] const std::vector<ChannelRead>& reads() const { return reads_; }
  [[nodiscard]] std::uint64_t top() const { return top_; }
  [[nodiscard]] std::uint64_t left() const { return left_; }

  // Number of samples in a unit with these inputs: positions along N times windows along T.
  [[nodiscard]] std::uint64_t samples(std::span<const StoredField> inputs) const;
  [[nodiscard]] std::uint64_t windows(const StoredField& input) const;
  // For a sample of a unit: its position along N, the first step of its window, and its label's
  // step.
  struct Position {
    std::uint64_t sample = 0, step = 0, label_step = 0;
  };
  [[nodiscard]] Position position(const StoredField& input, std::uint64_t number) const;
  [[nodiscard]] bool windowed() const { return window_ > 0; }
  [[nodiscard]] std::uint64_t steps_ahead() const { return ahead_; }

  // How these inputs' shape differs from this one; nothing if it is equal.
  [[nodiscard]] std::optional<std::string> difference(std::span<const StoredField> inputs) const;

 private:
  void select_channels(const std::string& subject, std::span<const StoredField> inputs,
                       const FieldOptions& options);
  void add_reads(std::size_t input, std::uint64_t steps, std::uint64_t channels,
                 std::span<const std::int64_t> to);

  AxisPlaces places_;
  std::vector<StoredField> first_;  // only extents
  std::int64_t height_ = 0, width_ = 0, channels_ = 0;
  std::uint64_t top_ = 0, left_ = 0;
  std::uint64_t window_ = 0, stride_ = 1, ahead_ = 0;
  std::vector<ChannelRead> reads_;
};

}  // namespace trireme
