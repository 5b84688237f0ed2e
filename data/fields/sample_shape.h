// SPDX-License-Identifier: Apache-2.0
// Position of a sample's channels, slices, rows and columns in its input data sets. A pure function
// of extents and options.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/fields/field_options.h"
#include "data/fields/storage/field_index.h"
#include "data/fields/storage/field_reader.h"
#include "runtime/base/shape.h"

namespace trireme {

// The index of each axis in a data set; -1: it has none.
struct AxisPlaces {
  int sample = -1, step = -1, channel = -1, depth = -1, row = -1, column = -1;
  std::size_t axes = 0;
  int channel_axes = 0;  // 2: of matrices, whose two last axes count channels

  // That of images' rows, or of volumes' slices.
  [[nodiscard]] int line() const { return depth >= 0 ? depth : row; }
};
// Those that the inputs of a sample share.
inline constexpr std::array shared_axes = {&AxisPlaces::sample, &AxisPlaces::step,
                                           &AxisPlaces::depth, &AxisPlaces::row,
                                           &AxisPlaces::column};
// `axes`: a word of data.axes. `volume`: D is an axis of the sample; otherwise depths become
// channels as steps do.
[[nodiscard]] AxisPlaces axis_places(const std::string& axes, bool volume);
// 1 without axes of channels.
[[nodiscard]] std::uint64_t channels_of(const StoredField& field, const AxisPlaces& places);

// Channels read together from one input: a box of steps and channels. Each goes to a channel of the
// sample, or with -1 nowhere.
struct ChannelRead {
  std::size_t input = 0;
  std::uint64_t first_step = 0, steps = 1;  // relative to the window's start
  std::uint64_t first_channel = 0, channels = 1;
  std::vector<std::int64_t> to;  // (steps, channels)
};

// Consecutive lines of a sample: rows of an image, slices of a volume.
struct Lines {
  std::uint64_t first = 0, count = 0;
};

class SampleShape {
 public:
  // For the inputs of one unit. Raises ExitCode::data, beginning with `subject`, if their axes are
  // not those of options.axes, they differ, or the selection does not exist. Inputs without an axis
  // of the first are the same all along it; those without steps are read once.
  SampleShape(const std::string& subject, std::span<const StoredField> inputs,
              const FieldOptions& options);

  // Of the first input, which has all axes but perhaps C.
  [[nodiscard]] const AxisPlaces& places() const { return places_.front(); }
  [[nodiscard]] const AxisPlaces& places(std::size_t input) const { return places_[input]; }
  [[nodiscard]] bool is_volume() const { return places().depth >= 0; }
  [[nodiscard]] std::int64_t depth() const { return depth_; }  // 1 of images
  [[nodiscard]] std::int64_t height() const { return height_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  // Slices (1 of images), rows and columns; the same of a whole sample of any unit's input.
  [[nodiscard]] std::array<std::int64_t, 3> extents() const { return {depth_, height_, width_}; }
  [[nodiscard]] std::array<std::int64_t, 3> extents_of(const StoredField& input) const;
  [[nodiscard]] const std::vector<ChannelRead>& reads() const { return reads_; }
  // (H, W) or (D, H, W), and with channels.
  [[nodiscard]] Shape pixels() const;
  [[nodiscard]] Shape inputs() const;
  // "64 x 48", "32 x 64 x 48"
  [[nodiscard]] std::string size_text() const;

  [[nodiscard]] Lines lines() const;  // all of them
  // Slices (1 of images), rows and columns of these lines.
  [[nodiscard]] std::array<std::int64_t, 3> box_of(const Lines& lines) const {
    const auto count = static_cast<std::int64_t>(lines.count);
    return {is_volume() ? count : 1, is_volume() ? height_ : count, width_};
  }
  [[nodiscard]] std::int64_t pixels_of_line() const {
    return is_volume() ? height_ * width_ : width_;
  }
  // The first line of the sample in its data sets.
  [[nodiscard]] std::uint64_t first_line() const { return is_volume() ? front_ : top_; }
  // Sets the spatial axes of `box`, in a data set with axes `of`.
  void set_lines(Box& box, const AxisPlaces& of, const Lines& lines) const;
  // The row and column, or slice, row and column, of a pixel in its data set, for messages.
  [[nodiscard]] std::string pixel_text(std::size_t pixel) const;

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

  // The shape of a part of each sample.
  [[nodiscard]] SampleShape part(const FieldOptions::Part& part) const;

  // How these inputs' shape differs from this one; nothing if it is equal. Extents of patches do
  // not count.
  [[nodiscard]] std::optional<std::string> difference(std::span<const StoredField> inputs) const;

 private:
  void take_extents(const StoredField& input, const FieldOptions& options);
  void take_crop(const std::string& subject, const StoredField& input,
                 const std::vector<std::int64_t>& crop);
  void select_channels(const std::string& subject, std::span<const StoredField> inputs,
                       const FieldOptions& options);
  void add_reads(std::size_t input, std::uint64_t steps, std::uint64_t channels,
                 std::span<const std::int64_t> to);

  std::vector<AxisPlaces> places_;
  std::vector<StoredField> first_;  // only extents
  std::int64_t depth_ = 1, height_ = 0, width_ = 0, channels_ = 0;
  std::uint64_t front_ = 0, top_ = 0, left_ = 0;
  bool patches_ = false;
  std::uint64_t window_ = 0, stride_ = 1, ahead_ = 0;
  std::vector<ChannelRead> reads_;
};

}  // namespace trireme
