// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sample_shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "runtime/base/error.h"

namespace trireme {
namespace {

std::uint64_t extent_of(const StoredField& field, int axis) {
  return axis < 0 ? 1 : field.extents[static_cast<std::size_t>(axis)];
}

}  // namespace

AxisPlaces axis_places(const std::string& axes, bool volume) {
  const auto place = [&](char letter) {
    const auto at = axes.find(letter);
    return at == std::string::npos ? -1 : static_cast<int>(at);
  };
  const int depth = place('D');
  return {.sample = place('N'),
          .step = volume ? place('T') : std::max(place('T'), depth),
          .channel = place('C'),
          .depth = volume ? depth : -1,
          .row = place('H'),
          .column = place('W'),
          .axes = axes.size(),
          .channel_axes = static_cast<int>(std::ranges::count(axes, 'C'))};
}

std::uint64_t channels_of(const StoredField& field, const AxisPlaces& places) {
  std::uint64_t channels = 1;
  for (int i = 0; i < places.channel_axes; ++i)
    channels *= extent_of(field, places.channel + i);
  return channels;
}

SampleShape::SampleShape(const std::string& subject, std::span<const StoredField> inputs,
                         const FieldOptions& options)
    : patches_(options.patches),
      window_(static_cast<std::uint64_t>(options.window)),
      stride_(static_cast<std::uint64_t>(options.window_stride)),
      ahead_(static_cast<std::uint64_t>(options.steps_ahead)) {
  std::istringstream words(options.axes);
  for (std::string word; words >> word;)
    places_.push_back(axis_places(word, options.depth != 0));
  if (places_.size() == 1) places_.resize(inputs.size(), places_.front());
  if (places_.size() != inputs.size())
    fail(ExitCode::config, "data.axes: {}: has {} orders for {} inputs; give one, or one for each",
         options.axes, places_.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const StoredField& input = inputs[i];
    if (input.extents.size() != places_[i].axes) {
      fail(ExitCode::data,
           "{}: {}: has {} axes ({}), but data.axes: {} names {}; write one letter per axis, and "
           "for inputs with different axes a word for each",
           subject, input.name, input.extents.size(), fmt::join(input.extents, " x "), options.axes,
           places_[i].axes);
    }
    if (input.elements() == 0)
      fail(ExitCode::data, "{}: {}: holds no elements ({})", subject, input.name,
           fmt::join(input.extents, " x "));
    first_.push_back({.name = input.name, .extents = input.extents, .parts = {}});
    for (const auto axis : shared_axes) {
      const int place = places_[i].*axis;
      if (place < 0 || extent_of(input, place) == extent_of(inputs.front(), places().*axis))
        continue;
      fail(ExitCode::data,
           "{}: {} is {}, but {} is {}: inputs of a sample may differ only in channels", subject,
           inputs.front().name, fmt::join(inputs.front().extents, " x "), input.name,
           fmt::join(input.extents, " x "));
    }
  }
  take_extents(inputs.front(), options);
  take_crop(subject, inputs.front(), options.crop);
  if (window_ > 0 && windows(inputs.front()) == 0) {
    fail(ExitCode::data,
         "{}: {}: has {} steps; data.window: {} with window_stride: {} and steps_ahead: {} needs "
         "{}; "
         "use smaller ones, or files with more steps",
         subject, inputs.front().name, extent_of(inputs.front(), places().step), window_, stride_,
         ahead_, (window_ - 1) * stride_ + 1 + ahead_);
  }
  select_channels(subject, inputs, options);
}

std::array<std::int64_t, 3> SampleShape::extents_of(const StoredField& input) const {
  const auto extent = [&](int axis) { return static_cast<std::int64_t>(extent_of(input, axis)); };
  return {extent(places().depth), extent(places().row), extent(places().column)};
}

// Of patches those of the model.
void SampleShape::take_extents(const StoredField& input, const FieldOptions& options) {
  const auto [depth, height, width] = extents_of(input);
  const auto chosen = [&](std::int64_t model, std::int64_t stored) {
    return patches_ && model > 0 ? model : stored;
  };
  depth_ = chosen(options.depth, depth);
  height_ = chosen(options.height, height);
  width_ = chosen(options.width, width);
}

void SampleShape::take_crop(const std::string& subject, const StoredField& input,
                            const std::vector<std::int64_t>& crop) {
  const auto slices = extent_of(input, places().depth), rows = extent_of(input, places().row),
             columns = extent_of(input, places().column);
  if (crop.empty()) return;
  const std::size_t axes = is_volume() ? 3 : 2;
  if (crop.size() != 2 * axes)
    fail(ExitCode::config, "data.crop: has {} numbers, but {} need {}", crop.size(),
         is_volume() ? "volumes" : "images", 2 * axes);
  if (is_volume()) {
    front_ = static_cast<std::uint64_t>(crop.front());
    depth_ = crop[axes];
  }
  top_ = static_cast<std::uint64_t>(crop[axes - 2]);
  left_ = static_cast<std::uint64_t>(crop[axes - 1]);
  height_ = crop[2 * axes - 2];
  width_ = crop[2 * axes - 1];
  if (is_volume() && front_ + static_cast<std::uint64_t>(depth_) > slices)
    fail(ExitCode::data, "{}: data.crop: {} slices from {} do not fit {}", subject, depth_, front_,
         slices);
  if (top_ + static_cast<std::uint64_t>(height_) > rows ||
      left_ + static_cast<std::uint64_t>(width_) > columns) {
    fail(ExitCode::data, "{}: data.crop: {} rows from {} and {} columns from {} do not fit {} x {}",
         subject, height_, top_, width_, left_, rows, columns);
  }
}

SampleShape SampleShape::part(const FieldOptions::Part& part) const {
  SampleShape shape = *this;
  shape.front_ += static_cast<std::uint64_t>(part.first[0]);
  shape.top_ += static_cast<std::uint64_t>(part.first[1]);
  shape.left_ += static_cast<std::uint64_t>(part.first[2]);
  shape.depth_ = part.count[0];
  shape.height_ = part.count[1];
  shape.width_ = part.count[2];
  return shape;
}

Shape SampleShape::pixels() const {
  return is_volume() ? Shape{depth_, height_, width_} : Shape{height_, width_};
}

Shape SampleShape::inputs() const {
  return is_volume() ? Shape{depth_, height_, width_, channels_}
                     : Shape{height_, width_, channels_};
}

std::string SampleShape::size_text() const {
  return fmt::format("{}", fmt::join(pixels().extents(), " x "));
}

Lines SampleShape::lines() const {
  return {0, static_cast<std::uint64_t>(is_volume() ? depth_ : height_)};
}

void SampleShape::set_lines(Box& box, const AxisPlaces& of, const Lines& lines) const {
  const auto set = [&](int axis, std::uint64_t start, std::uint64_t count) {
    if (axis < 0) return;
    box.start[static_cast<std::size_t>(axis)] = start;
    box.count[static_cast<std::size_t>(axis)] = count;
  };
  set(of.row, top_, static_cast<std::uint64_t>(height_));
  set(of.column, left_, static_cast<std::uint64_t>(width_));
  set(of.line(), first_line() + lines.first, lines.count);
}

std::string SampleShape::pixel_text(std::size_t pixel) const {
  const auto width = static_cast<std::size_t>(width_), height = static_cast<std::size_t>(height_);
  const std::string text =
      fmt::format("row {}, column {}", top_ + pixel / width % height, left_ + pixel % width);
  return is_volume() ? fmt::format("slice {}, {}", front_ + pixel / width / height, text) : text;
}

void SampleShape::select_channels(const std::string& subject, std::span<const StoredField> inputs,
                                  const FieldOptions& options) {
  const auto steps_of = [&](std::size_t input) {
    const int axis = places_[input].step;
    return axis >= 0 && window_ > 0 ? window_ : extent_of(inputs[input], axis);
  };
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    all += steps_of(i) * channels_of(inputs[i], places_[i]);
  constexpr std::uint64_t most_channels = 4096;
  if (all > std::uint64_t{1} << 24 || (options.input_channels.empty() && all > most_channels)) {
    fail(ExitCode::data,
         "{}: samples of {} channels, more than {}; select some by "
         "data.input_channels or data.window",
         subject, all, most_channels);
  }
  // The target of each stored channel.
  std::vector<std::int64_t> to(static_cast<std::size_t>(all), -1);
  if (options.input_channels.empty()) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<std::int64_t>(i);
  }
  for (std::size_t i = 0; i < options.input_channels.size(); ++i) {
    const std::int64_t channel = options.input_channels[i];
    if (channel >= static_cast<std::int64_t>(all) || to[static_cast<std::size_t>(channel)] >= 0) {
      fail(ExitCode::data, "{}: data.input_channels: {} {}", subject, channel,
           channel >= static_cast<std::int64_t>(all)
               ? fmt::format("is not one of the {} channels, 0 to {}", all, all - 1)
               : "is given twice");
    }
    to[static_cast<std::size_t>(channel)] = static_cast<std::int64_t>(i);
  }
  channels_ = static_cast<std::int64_t>(
      options.input_channels.empty() ? all : options.input_channels.size());
  std::size_t first = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::uint64_t steps = steps_of(i), channels = channels_of(inputs[i], places_[i]);
    const auto count = static_cast<std::size_t>(steps * channels);
    add_reads(i, steps, channels, std::span(to).subspan(first, count));
    first += count;
  }
}

// Consecutive steps are read together. If channels are the last axis, all from the first to the
// last wanted are read together at no cost, else runs of wanted ones. Matrices are read whole.
void SampleShape::add_reads(std::size_t input, std::uint64_t steps, std::uint64_t channels,
                            std::span<const std::int64_t> to) {
  const AxisPlaces& places = places_[input];
  const bool last = places.channel == static_cast<int>(places.axes) - 1;
  const std::uint64_t together = stride_ == 1 ? steps : 1;
  const auto wanted = [&](std::uint64_t step, std::uint64_t channel) {
    for (std::uint64_t s = step; s < step + together; ++s) {
      if (to[static_cast<std::size_t>(s * channels + channel)] >= 0) return true;
    }
    return false;
  };
  for (std::uint64_t step = 0; step < steps; step += together) {
    for (std::uint64_t from = 0; from < channels;) {
      while (from < channels && !wanted(step, from))
        ++from;
      if (from == channels) break;
      std::uint64_t end = from + 1;
      for (std::uint64_t c = end; c < channels && (last || c == end); ++c) {
        if (wanted(step, c)) end = c + 1;
      }
      if (places.channel_axes > 1) {
        from = 0;
        end = channels;
      }
      ChannelRead read{input, step * stride_, together, from, end - from, {}};
      for (std::uint64_t s = step; s < step + together; ++s) {
        for (std::uint64_t c = from; c < end; ++c)
          read.to.push_back(to[static_cast<std::size_t>(s * channels + c)]);
      }
      reads_.push_back(std::move(read));
      from = end;
    }
  }
}

std::uint64_t SampleShape::windows(const StoredField& input) const {
  if (window_ == 0) return 1;
  const std::uint64_t steps = extent_of(input, places().step);
  const std::uint64_t needed = (window_ - 1) * stride_ + 1 + ahead_;
  return steps < needed ? 0 : steps - needed + 1;
}

std::uint64_t SampleShape::samples(std::span<const StoredField> inputs) const {
  return extent_of(inputs.front(), places().sample) * windows(inputs.front());
}

SampleShape::Position SampleShape::position(const StoredField& input, std::uint64_t number) const {
  const std::uint64_t count = windows(input);
  const std::uint64_t step = number % count;
  return {number / count, step, window_ == 0 ? 0 : step + (window_ - 1) * stride_ + ahead_};
}

std::optional<std::string> SampleShape::difference(std::span<const StoredField> inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const AxisPlaces& of = places_[i];
    const bool same_axes = inputs[i].extents.size() == of.axes;
    bool same = same_axes && (of.sample < 0 || extent_of(inputs[i], of.sample) ==
                                                   extent_of(inputs[0], places().sample));
    same = same && extent_of(inputs[i], of.channel) == extent_of(first_[i], of.channel) &&
           channels_of(inputs[i], of) == channels_of(first_[i], of);
    for (const auto axis : {&AxisPlaces::depth, &AxisPlaces::row, &AxisPlaces::column}) {
      if (patches_ && of.*axis >= 0)
        same = same && extent_of(inputs[i], of.*axis) == extent_of(inputs[0], places().*axis);
      else
        same = same && extent_of(inputs[i], of.*axis) == extent_of(first_[i], of.*axis);
    }
    const bool free_steps =
        window_ > 0 && same &&
        (of.step < 0 || (windows(inputs[0]) > 0 &&
                         extent_of(inputs[i], of.step) == extent_of(inputs[0], places().step)));
    same = same && inputs[i].elements() > 0 &&
           (free_steps ||
            (window_ == 0 && extent_of(inputs[i], of.step) == extent_of(first_[i], of.step)));
    if (same) continue;
    if (same_axes && window_ > 0 && i == 0 && windows(inputs[0]) == 0)
      return fmt::format("{} has {} steps, fewer than data.window and steps_ahead need",
                         inputs[0].name, extent_of(inputs[0], places().step));
    return fmt::format("{} is {}", inputs[i].name, fmt::join(inputs[i].extents, " x "));
  }
  return std::nullopt;
}

}  // namespace trireme
