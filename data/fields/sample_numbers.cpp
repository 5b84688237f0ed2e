// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sample_numbers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "data/fields/sample_values.h"
#include "data/fields/storage/element_type.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::uint64_t extent_at(const StoredField& field, int axis) {
  return field.extents[static_cast<std::size_t>(axis)];
}

// The axes of the inputs without some.
AxisPlaces without(const AxisPlaces& places, std::span<int AxisPlaces::*const> left_out) {
  constexpr std::array all = {&AxisPlaces::sample, &AxisPlaces::step, &AxisPlaces::channel,
                              &AxisPlaces::depth,  &AxisPlaces::row,  &AxisPlaces::column};
  const auto kept = [&](int AxisPlaces::*const axis) {
    return places.*axis >= 0 && std::ranges::find(left_out, axis) == left_out.end();
  };
  AxisPlaces result;
  for (const auto axis : all) {
    if (!kept(axis)) continue;
    ++result.axes;
    result.*axis = 0;
    for (const auto other : all)
      result.*axis += kept(other) && places.*other < places.*axis ? 1 : 0;
  }
  if (result.channel < 0) return result;
  result.channel_axes = places.channel_axes;
  result.axes += static_cast<std::size_t>(places.channel_axes - 1);
  return result;
}

bool has_extents(const StoredField& map, const AxisPlaces& axes, const StoredField& input,
                 const AxisPlaces& places, MapRole role) {
  if (map.extents.size() != axes.axes) return false;
  for (const auto axis : shared_axes) {
    if (axes.*axis >= 0 && extent_at(map, axes.*axis) != extent_at(input, places.*axis))
      return false;
  }
  return role == MapRole::values || axes.channel < 0 || extent_at(map, axes.channel) == 1;
}

// Values that are also an input have its axes.
std::optional<AxisPlaces> axes_of_input(const UnitFields& unit, const StoredField& map,
                                        const SampleShape& shape) {
  const auto found = std::ranges::find(unit.inputs(), map.name, &StoredField::name);
  if (found == unit.inputs().end()) return std::nullopt;
  const auto i = static_cast<std::size_t>(found - unit.inputs().begin());
  const bool varies = std::ranges::all_of(shared_axes, [&](int AxisPlaces::*const axis) {
    return shape.places(i).*axis >= 0 || shape.places().*axis < 0;
  });
  if (!varies) return std::nullopt;
  return shape.places(i);
}

// The axes of a map, if it has numbers per pixel.
std::optional<AxisPlaces> axes_of_map(const UnitFields& unit, const StoredField& map,
                                      const SampleShape& shape, MapRole role) {
  const StoredField& input = unit.inputs().front();
  AxisPlaces places = shape.places();
  if (role == MapRole::values) {
    if (const auto axes = axes_of_input(unit, map, shape)) return axes;
    if (places.channel < 0) {
      places.channel = static_cast<int>(places.axes++);
      places.channel_axes = 1;
    }
  }
  std::vector<int AxisPlaces::*> left_out;
  const auto fits = [&] {
    return has_extents(map, without(places, left_out), input, places, role);
  };
  for (const bool samples : {true, false}) {
    if (!samples && role != MapRole::mask) continue;
    for (const bool steps : {true, false}) {
      if (steps ? role == MapRole::mask || !shape.windowed()
                : role != MapRole::mask && shape.steps_ahead() > 0)
        continue;
      for (const bool channels : {false, true}) {
        if (channels && role == MapRole::mask) continue;
        left_out.clear();
        if (!samples) left_out.push_back(&AxisPlaces::sample);
        if (!steps) left_out.push_back(&AxisPlaces::step);
        if (!channels) left_out.push_back(&AxisPlaces::channel);
        if (fits()) return without(places, left_out);
      }
    }
  }
  return std::nullopt;
}

// The axes in front that have these extents, not counting axes of extent 1.
std::optional<std::size_t> leading_axes(const StoredField& field,
                                        std::span<const std::uint64_t> extents) {
  std::size_t axis = 0;
  for (const std::uint64_t extent : extents) {
    if (extent == 1) continue;
    while (axis < field.extents.size() && field.extents[axis] == 1)
      ++axis;
    if (axis == field.extents.size() || field.extents[axis] != extent) return std::nullopt;
    ++axis;
  }
  return axis;
}

}  // namespace

std::string UnitFields::name() const {
  return unit_->group.empty() ? file_->path : file_->path + ": " + unit_->group;
}

void require_numbers(const UnitFields& unit, const StoredField& field, const SampleShape& shape,
                     std::string_view what) {
  const StoredField& input = unit.inputs().front();
  std::vector<std::uint64_t> extents = field.extents;
  std::erase(extents, 1U);
  std::vector<std::uint64_t> wanted;
  const AxisPlaces& places = shape.places();
  if (places.sample >= 0) wanted.push_back(extent_at(input, places.sample));
  std::erase(wanted, 1U);
  if (extents == wanted && shape.steps_ahead() == 0) return;
  if (shape.windowed()) wanted.push_back(extent_at(input, places.step));
  if (extents == wanted) return;
  fail(ExitCode::data, "{}: {}: {} needs one number per sample{}, but this holds {} for {} samples",
       unit.name(), field.name, what, shape.windowed() ? ", or per sample and step" : "",
       field.elements(), shape.samples(unit.inputs()));
}

std::uint64_t element_of(const UnitFields& unit, const StoredField& field, const SampleShape& shape,
                         std::uint64_t number) {
  const StoredField& input = unit.inputs().front();
  const auto position = shape.position(input, number);
  if (!shape.windowed()) return position.sample;
  const AxisPlaces& places = shape.places();
  const std::uint64_t steps = extent_at(input, places.step);
  const std::uint64_t along = places.sample < 0 ? 1 : extent_at(input, places.sample);
  return field.elements() == along * steps ? position.sample * steps + position.label_step
                                           : position.sample;
}

double read_number(const FieldReader& reader, const UnitFields& unit, const StoredField& field,
                   std::uint64_t element) {
  Box box;
  for (std::size_t i = field.extents.size(); i-- > 0;) {
    box.start[i] = element % field.extents[i];
    box.count[i] = 1;
    element /= field.extents[i];
  }
  std::array<std::byte, 8> stored{};
  const std::span bytes = std::span(stored).first(field.type.bytes);
  reader.read(unit.file(), field, box, bytes);
  return to_double(field.type, field.packing, bytes.data());
}

std::optional<NumbersPlace> place_of_numbers(const UnitFields& unit, const StoredField& field,
                                             const SampleShape& shape) {
  const StoredField& input = unit.inputs().front();
  const AxisPlaces& places = shape.places();
  const std::array extents = {places.sample < 0 ? 1 : extent_at(input, places.sample),
                              shape.windowed() ? extent_at(input, places.step) : 1};
  NumbersPlace place{.count = 1, .of_step = shape.windowed()};
  std::optional<std::size_t> axes = leading_axes(field, extents);
  if (!axes && shape.steps_ahead() == 0) {
    place.of_step = false;
    axes = leading_axes(field, std::span(extents).first(1));
  }
  if (!axes || field.elements() == 0) return std::nullopt;
  place.axes = *axes;
  for (std::size_t i = place.axes; i < field.extents.size(); ++i)
    place.count *= field.extents[i];
  return place;
}

void read_numbers(const FieldReader& reader, const UnitFields& unit, const StoredField& field,
                  const SampleShape& shape, std::uint64_t number, std::vector<std::byte>& stored) {
  const StoredField& input = unit.inputs().front();
  const auto position = shape.position(input, number);
  const NumbersPlace place = place_of_numbers(unit, field, shape).value();
  std::uint64_t at = position.sample;
  if (place.of_step) at = at * extent_at(input, shape.places().step) + position.label_step;
  Box box;
  for (std::size_t i = field.extents.size(); i-- > 0;) {
    const bool whole = i >= place.axes;
    box.start[i] = whole ? 0 : at % field.extents[i];
    box.count[i] = whole ? field.extents[i] : 1;
    if (!whole) at /= field.extents[i];
  }
  stored.resize(static_cast<std::size_t>(place.count) * field.type.bytes);
  reader.read(unit.file(), field, box, stored);
}

std::uint64_t require_map(const UnitFields& unit, const StoredField& field,
                          const SampleShape& shape, MapRole role) {
  const StoredField& input = unit.inputs().front();
  if (const auto axes = axes_of_map(unit, field, shape, role)) return channels_of(field, *axes);
  const std::string_view sides =
      shape.is_volume() ? "slices, rows and columns" : "rows and columns";
  const std::string_view left_out = shape.is_volume() ? "C and T" : "C, D and T";
  if (role == MapRole::mask)
    fail(ExitCode::data,
         "{}: {}: a mask needs the {} of the inputs ({}), once or per sample, in the order of "
         "data.axes without {}; this is {}",
         unit.name(), field.name, sides, fmt::join(input.extents, " x "), left_out,
         fmt::join(field.extents, " x "));
  fail(ExitCode::data,
       "{}: {}: a map of {} needs the {} of the inputs ({}), in the order of data.axes {} {}; this "
       "is {}; name a data set on the same grid",
       unit.name(), field.name, role == MapRole::values ? "values" : "classes", sides,
       fmt::join(input.extents, " x "), role == MapRole::values ? "with or without" : "without",
       role == MapRole::values ? (shape.windowed() ? "C" : "C, and without T")
       : shape.windowed()      ? "C, and with or without T"
                               : left_out,
       fmt::join(field.extents, " x "));
}

void require_floats(const UnitFields& unit, const StoredField& field, const std::byte* from,
                    std::span<float> to) {
  to_floats(field.type, field.packing, from, to);
  if (field.packing.is_none() && field.type.bytes < 8) return;
  if (std::ranges::none_of(to, [](float value) { return std::isinf(value); })) return;
  constexpr double most = std::numeric_limits<float>::max();
  double low = 0, high = 0;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const double value = to_double(field.type, field.packing, from + i * field.type.bytes);
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  if (low < -most || high > most)
    fail(ExitCode::data,
         "{}: {}: holds numbers from {:.3g} to {:.3g}, but samples are float32, up to {:.3g}; "
         "store it in another unit or as log10(x); numbers that mark missing values belong into "
         "its attribute _FillValue",
         unit.name(), field.name, low, high, most);
}

void read_map(const FieldReader& reader, const UnitFields& unit, const StoredField& field,
              const SampleShape& shape, MapRole role, std::uint64_t number, const Lines& lines,
              std::vector<float>& map, const NumberPacking* packing) {
  const StoredField& input = unit.inputs().front();
  const AxisPlaces axes = axes_of_map(unit, field, shape, role).value();
  const auto position = shape.position(input, number);
  Box box;
  for (std::size_t i = 0; i < field.extents.size(); ++i)
    box.count[i] = field.extents[i];
  for (const auto& [axis, start] :
       {std::pair(axes.sample, position.sample), std::pair(axes.step, position.label_step)}) {
    if (axis < 0) continue;
    box.start[static_cast<std::size_t>(axis)] = start;
    box.count[static_cast<std::size_t>(axis)] = 1;
  }
  shape.set_lines(box, axes, lines);
  thread_local std::vector<std::byte> stored;
  thread_local std::vector<float> values;
  ChannelRead all{.channels = channels_of(field, axes), .to = {}};
  for (std::uint64_t c = 0; c < all.channels; ++c)
    all.to.push_back(static_cast<std::int64_t>(c));
  const auto count = static_cast<std::size_t>(lines.count * all.channels) *
                     static_cast<std::size_t>(shape.pixels_of_line());
  map.resize(count);
  stored.resize(count * field.type.bytes);
  values.resize(count);
  reader.read(unit.file(), field, box, stored);
  if (role == MapRole::values) {
    require_floats(unit, field, stored.data(), values);
  } else {
    to_floats(field.type, packing == nullptr ? field.packing : *packing, stored.data(), values);
  }
  place_channels(axes, all, shape.box_of(lines), static_cast<std::int64_t>(all.channels),
                 values.data(), map.data());
}

}  // namespace trireme
