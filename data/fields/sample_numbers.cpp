// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sample_numbers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "data/fields/storage/element_type.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::uint64_t extent_at(const StoredField& field, int axis) {
  return field.extents[static_cast<std::size_t>(axis)];
}

// Axes of the inputs that a mask also has, in order.
std::vector<int> mask_axes(const AxisPlaces& places, bool samples) {
  std::vector<int> axes{places.row, places.column};
  if (samples && places.sample >= 0) axes.push_back(places.sample);
  std::ranges::sort(axes);
  return axes;
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

void require_mask(const UnitFields& unit, const SampleShape& shape) {
  const StoredField &mask = unit.mask(), &input = unit.inputs().front();
  for (const bool samples : {true, false}) {
    std::vector<std::uint64_t> wanted;
    for (const int axis : mask_axes(shape.places(), samples))
      wanted.push_back(extent_at(input, axis));
    if (mask.extents == wanted) return;
  }
  fail(ExitCode::data,
       "{}: {}: a mask needs the rows and columns of the inputs ({}), once or per sample, in the "
       "order of data.axes without C, D and T; this is {}",
       unit.name(), mask.name, fmt::join(input.extents, " x "), fmt::join(mask.extents, " x "));
}

void read_mask(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
               std::uint64_t number, std::uint64_t row, std::uint64_t rows,
               std::vector<float>& mask) {
  const StoredField& field = unit.mask();
  const AxisPlaces& places = shape.places();
  const auto width = static_cast<std::uint64_t>(shape.width());
  const auto axes = mask_axes(places, field.extents.size() == 3);
  Box box;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == places.row) {
      box.start[i] = shape.top() + row;
      box.count[i] = rows;
    } else if (axes[i] == places.column) {
      box.start[i] = shape.left();
      box.count[i] = width;
    } else {
      box.start[i] = shape.position(unit.inputs().front(), number).sample;
      box.count[i] = 1;
    }
  }
  thread_local std::vector<std::byte> stored;
  thread_local std::vector<float> values;
  mask.resize(static_cast<std::size_t>(rows * width));
  stored.resize(mask.size() * field.type.bytes);
  values.resize(mask.size());
  reader.read(unit.file(), field, box, stored);
  to_floats(field.type, field.packing, stored.data(), values);
  std::ranges::replace_if(
      values, [](float value) { return std::isnan(value); }, 0.0F);  // missing: not valid
  if (places.row < places.column) return mask.swap(values);
  for (std::size_t i = 0; i < mask.size(); ++i)
    mask[i] = values[i % width * rows + i / width];
}

}  // namespace trireme
