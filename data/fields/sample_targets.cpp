// SPDX-License-Identifier: Apache-2.0
#include "data/fields/sample_targets.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "data/fields/storage/element_type.h"
#include "runtime/base/error.h"
#include "runtime/nn/batch.h"

namespace trireme {

SampleTargets::SampleTargets(const FieldOptions& options)
    : options_(options),
      spec_(options.predicted),
      mean_(options.target_mean),
      std_(options.target_std),
      class_names_(options.class_names) {
  TRIREME_EXPECTS(spec_.kind != TargetKind::tokens, "files of numbers have no tokens");
  if (options.target.empty())
    fail(ExitCode::config, "data.target: not set; give the path of what to predict");
  if (options.target_mean.size() != options.target_std.size())
    fail(ExitCode::config, "data.target_mean: has {} numbers, but data.target_std {}",
         options.target_mean.size(), options.target_std.size());
  if (spec_.kind != TargetKind::values && options.target.size() != 1)
    fail(ExitCode::config,
         "data.target: names {} data sets, but the model predicts {}; name one, with a class per "
         "{}",
         options.target.size(), spec_.kind == TargetKind::label ? "a class" : "a map of classes",
         spec_.kind == TargetKind::label ? "sample" : "pixel");
  const auto refuse = [](std::string_view key, std::string_view needs) {
    fail(ExitCode::config, "{}: has no effect: the model does not predict {}; remove it", key,
         needs);
  };
  if (spec_.kind != TargetKind::values && !options.target_mean.empty())
    refuse("data.target_mean", "numbers");
  if (spec_.kind == TargetKind::values && !options.class_names.empty())
    refuse("data.class_names", "classes");
  if (spec_.kind != TargetKind::pixels && options.ignored_class != ignored_target)
    refuse("data.ignored_class", "maps of classes");
}

void SampleTargets::require(const UnitFields& unit, const SampleShape& shape) {
  switch (spec_.kind) {
    case TargetKind::label:
      if (const auto classes = one_hot(unit, shape)) return require_classes(unit, *classes);
      return require_numbers(unit, unit.targets().front(), shape, "a label");
    case TargetKind::values:
      return spec_.shape.rank() > 1 ? require_value_maps(unit, shape) : require_values(unit, shape);
    default:
      break;
  }
  static_cast<void>(require_map(unit, unit.targets().front(), shape, MapRole::target));
  spec_.shape = shape.pixels();
}

std::optional<std::int64_t> SampleTargets::one_hot(const UnitFields& unit,
                                                   const SampleShape& shape) const {
  const StoredField& field = unit.targets().front();
  constexpr std::uint64_t most = 1 << 20;
  if (field.is_text()) return std::nullopt;
  const auto place = place_of_numbers(unit, field, shape);
  if (!place || place->count < 2 || place->count > most) return std::nullopt;
  const auto rest = std::span(field.extents).subspan(place->axes);
  if (std::ranges::count(rest, 1U) + 1 != std::ssize(rest)) return std::nullopt;  // a map
  return static_cast<std::int64_t>(place->count);
}

void SampleTargets::require_classes(const UnitFields& unit, std::int64_t classes) {
  const bool first = !known_;
  known_ = true;
  if (first && spec_.classes == 0) spec_.classes = classes;
  if (spec_.classes == classes) return;
  fail(ExitCode::data,
       "{}: {}: labels are rows of {} numbers, one per class, but {} {} classes; set "
       "model.classes: {}, or name labels of another kind by data.target",
       unit.name(), unit.targets().front().name, classes,
       options_.predicted.classes > 0 ? "the model has" : "other samples have", spec_.classes,
       classes);
}

void SampleTargets::require_values(const UnitFields& unit, const SampleShape& shape) {
  std::uint64_t all = 0;
  std::vector<std::string> counts;
  for (const StoredField& field : unit.targets()) {
    const auto place = place_of_numbers(unit, field, shape);
    if (!place)
      fail(ExitCode::data,
           "{}: {}: is {}, but the numbers to predict need {} as the first axis; data.target names "
           "data sets or attributes with one or more numbers per sample",
           unit.name(), field.name, fmt::join(field.extents, " x "),
           shape.windowed() ? "the samples, then the steps," : "the samples");
    all += place->count;
    counts.push_back(fmt::format("{} has {}", field.name, place->count));
  }
  const auto count = static_cast<std::int64_t>(all);
  constexpr std::uint64_t most = 1 << 20;
  if (spec_.shape.rank() == 0 && !known_ && all <= most) spec_.shape = Shape{count};
  if (!known_ && !options_.target_mean.empty() && options_.target_mean.size() != all)
    fail(ExitCode::data,
         "data.target_mean: has {} numbers, but samples of {} have {} to predict ({})",
         options_.target_mean.size(), unit.name(), all, fmt::join(counts, ", "));
  known_ = true;
  if (spec_.shape == Shape{count}) return;
  fail(ExitCode::data,
       "{}: data.target gives {} numbers per sample ({}), but {} {}; name other data sets, or set "
       "model.targets: {}",
       unit.name(), all, fmt::join(counts, ", "),
       options_.predicted.shape.rank() == 0 ? "other samples have" : "the model predicts",
       spec_.shape.count(), all);
}

// As many as the model predicts, or the first unit has.
void SampleTargets::require_value_maps(const UnitFields& unit, const SampleShape& shape) {
  std::uint64_t all = 0;
  std::vector<std::string> counts;
  for (const StoredField& field : unit.targets()) {
    const std::uint64_t channels = require_map(unit, field, shape, MapRole::values);
    all += channels;
    counts.push_back(fmt::format("{} has {}", field.name, channels));
  }
  const auto values = static_cast<std::int64_t>(all);
  const std::int64_t wanted = spec_.shape.back();
  if (wanted > 0 && wanted != values)
    fail(ExitCode::data,
         "{}: data.target gives {} values per pixel ({}), but {} {}; name other data sets, or set "
         "model.values: {}",
         unit.name(), all, fmt::join(counts, ", "),
         known_ ? "other samples have" : "the model predicts", wanted, all);
  if (!options_.target_mean.empty() && options_.target_mean.size() != all)
    fail(ExitCode::data,
         "data.target_mean: has {} numbers, but pixels of {} have {} values to predict ({})",
         options_.target_mean.size(), unit.name(), all, fmt::join(counts, ", "));
  known_ = true;
  const Shape pixels = shape.pixels();
  std::vector<std::int64_t> extents(pixels.extents().begin(), pixels.extents().end());
  extents.push_back(values);
  spec_.shape = Shape(extents);
}

void SampleTargets::take_scale(const UnitFields& unit, const SampleShape& shape) {
  const ChannelScale& scale = options_.scale;
  if (!spec_.is_value_map() || !mean_.empty() || scale.subtract.empty()) return;
  for (const StoredField& field : unit.targets()) {
    const auto input = std::ranges::find(unit.inputs(), field.name, &StoredField::name);
    const auto which = static_cast<std::size_t>(input - unit.inputs().begin());
    const std::uint64_t channels = require_map(unit, field, shape, MapRole::values);
    std::vector<std::int64_t> from(static_cast<std::size_t>(channels), -1);
    for (const ChannelRead& read : shape.reads()) {
      if (read.input != which) continue;
      for (std::uint64_t c = 0; c < read.channels; ++c)
        from[static_cast<std::size_t>(read.first_channel + c)] =
            read.to[static_cast<std::size_t>((read.steps - 1) * read.channels + c)];
    }
    for (const std::int64_t channel : from) {
      const auto at = static_cast<std::size_t>(channel);
      mean_.push_back(channel < 0 ? 0.0 : static_cast<double>(scale.subtract[at]));
      std_.push_back(channel < 0 ? 1.0 : 1.0 / static_cast<double>(scale.multiply[at]));
    }
  }
}

void SampleTargets::take_names(std::span<const UnitFields> units) {
  if (spec_.kind == TargetKind::values) return;
  const auto target = [](const UnitFields& unit) -> const StoredField& {
    return unit.targets().front();
  };
  const bool text = target(units.front()).is_text();
  std::set<std::string> all;
  for (const UnitFields& unit : units) {
    if (target(unit).is_text() != text)
      fail(ExitCode::data, "{}: {}: labels are {} here, but {} in {}", unit.name(),
           target(unit).name, text ? "numbers" : "text", text ? "text" : "numbers",
           units.front().name());
    all.insert(target(unit).names.begin(), target(unit).names.end());
  }
  if (text && class_names_.empty()) class_names_.assign(all.begin(), all.end());
  for (const std::string& name : class_names_) {
    if (!numbers_.emplace(name, static_cast<std::int32_t>(numbers_.size())).second)
      fail(ExitCode::data, "data.class_names: {} is given twice", name);
  }
  if (spec_.classes > 0 && numbers_.size() > static_cast<std::size_t>(spec_.classes)) {
    fail(ExitCode::data,
         "{}: labels have {} names, more than model.classes = {}; set model.classes "
         "to at least {}",
         units.front().name(), numbers_.size(), spec_.classes, numbers_.size());
  }
  for (const UnitFields& unit : units) {
    for (const std::string& name : target(unit).names) {
      if (!numbers_.contains(name))
        fail(ExitCode::data,
             "{}: {}: the label {} is not one of the classes {}; list all classes in "
             "data.class_names",
             unit.name(), target(unit).name, name, fmt::join(class_names_, ", "));
    }
  }
}

double SampleTargets::classes() const {
  if (!numbers_.empty()) return static_cast<double>(numbers_.size());
  return spec_.classes > 0 ? static_cast<double>(spec_.classes) : 2147483647.0;
}

// What helps against such a value in a map, which may be NaN.
std::string SampleTargets::advice_for(float value) const {
  if (std::isnan(value))
    return "data.not_finite: zero, or as data.ignored_class its fill value, leaves such pixels out";
  if (spec_.classes == 0 || value != std::floor(value))
    return "classes are whole numbers from 0 on";
  return fmt::format(
      "there are {} classes, 0 to {}; set model.classes to more, or data.ignored_class: {} if it "
      "is no class",
      classes(), classes() - 1, value);
}

bool SampleTargets::is_class(double value) const {
  return value >= 0 && value < classes() && value == std::floor(value);
}

void SampleTargets::read(const FieldReader& reader, const UnitFields& unit,
                         const SampleShape& shape, std::uint64_t number,
                         std::span<std::int32_t> to) const {
  if (spec_.kind == TargetKind::label) {
    to[0] = read_label(reader, unit, shape, number);
  } else if (spec_.kind == TargetKind::pixels) {
    read_pixels(reader, unit, shape, number, to);
  } else if (spec_.shape.rank() > 1) {
    read_value_maps(reader, unit, shape, number, to);
  } else {
    read_values(reader, unit, shape, number, to);
  }
}

template <typename Place>
std::int32_t SampleTargets::settled(double value, std::size_t at, const Place& place) const {
  auto result = static_cast<float>(mean_.empty() ? value : (value - mean_[at]) / std_[at]);
  if (std::isfinite(result)) return std::bit_cast<std::int32_t>(result);
  if (options_.not_finite == NotFinite::refuse)
    fail(ExitCode::data,
         "{} to predict{}; data.not_finite: zero or keep leaves such numbers out of the loss",
         place(), std::isfinite(value) ? ", which is too large for float32" : "");
  ++left_out_;
  return std::bit_cast<std::int32_t>(std::numeric_limits<float>::quiet_NaN());
}

void SampleTargets::read_value_maps(const FieldReader& reader, const UnitFields& unit,
                                    const SampleShape& shape, std::uint64_t number,
                                    std::span<std::int32_t> to) const {
  const auto values = static_cast<std::size_t>(spec_.shape.back());
  const std::size_t pixels = to.size() / values;
  thread_local std::vector<float> map;
  std::size_t first = 0;
  for (const StoredField& field : unit.targets()) {
    read_map(reader, unit, field, shape, MapRole::values, number, shape.lines(), map);
    const std::size_t channels = map.size() / pixels;
    for (std::size_t i = 0; i < map.size(); ++i) {
      const std::size_t pixel = i / channels, value = first + i % channels;
      to[pixel * values + value] = settled(map[i], value, [&] {
        return fmt::format("{}: {}: sample {} has {} at {}", unit.name(), field.name, number,
                           map[i], shape.pixel_text(pixel));
      });
    }
    first += channels;
  }
}

std::int32_t SampleTargets::read_one_hot(const FieldReader& reader, const UnitFields& unit,
                                         const SampleShape& shape, std::uint64_t number) const {
  const StoredField& field = unit.targets().front();
  thread_local std::vector<std::byte> stored;
  read_numbers(reader, unit, field, shape, number, stored);
  std::int32_t label = -1;
  const auto refuse = [&](std::size_t i, double value) {
    fail(ExitCode::data,
         "{}: {}: sample {} has {} as number {}, but a row of a label has one 1 and else 0; "
         "several 1 are labels of a model with several per sample, other numbers are values",
         unit.name(), field.name, number, value, i);
  };
  const std::size_t count = stored.size() / field.type.bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = to_double(field.type, field.packing, stored.data() + i * field.type.bytes);
    if (value == 0) continue;
    if (value != 1 || label >= 0) refuse(i, value);
    label = static_cast<std::int32_t>(i);
  }
  if (label < 0) refuse(0, 0);
  return label;
}

std::int32_t SampleTargets::read_label(const FieldReader& reader, const UnitFields& unit,
                                       const SampleShape& shape, std::uint64_t number) const {
  if (one_hot(unit, shape)) return read_one_hot(reader, unit, shape, number);
  const StoredField& target = unit.targets().front();
  const double value = read_number(reader, unit, target, element_of(unit, target, shape, number));
  if (target.is_text()) return numbers_.at(target.names[static_cast<std::size_t>(value)]);
  if (is_class(value)) return static_cast<std::int32_t>(value);
  fail(ExitCode::data, "{}: {}: sample {} has the label {}, but {}", unit.name(), target.name,
       number, value,
       spec_.classes > 0 ? fmt::format("there are {} classes, 0 to {}", classes(), classes() - 1)
                         : "a label is a whole number from 0 on, and not missing");
}

void SampleTargets::read_pixels(const FieldReader& reader, const UnitFields& unit,
                                const SampleShape& shape, std::uint64_t number,
                                std::span<std::int32_t> to) const {
  const StoredField& target = unit.targets().front();
  const auto ignored = static_cast<float>(options_.ignored_class);
  // The ignored class is that, even if an attribute calls it missing.
  NumberPacking packing = target.packing;
  const bool stored = packing.scale == 1 && packing.offset == 0;
  if (stored) {
    std::erase(packing.missing, static_cast<double>(options_.ignored_class));
    packing.least = std::min(packing.least, static_cast<double>(ignored));
    packing.most = std::max(packing.most, static_cast<double>(ignored));
  }
  thread_local std::vector<float> map;
  read_map(reader, unit, target, shape, MapRole::target, number, shape.lines(), map, &packing);
  const float end = static_cast<float>(classes());
  std::uint64_t left_out = 0;
  for (std::size_t i = 0; i < map.size(); ++i) {
    const float value = map[i];
    to[i] = ignored_target;
    if (value == ignored) continue;
    const bool missing = std::isnan(value) ||
                         (stored && (value < target.packing.least || value > target.packing.most));
    if (!missing && value >= 0 && value < end) to[i] = static_cast<std::int32_t>(value);
    if (to[i] >= 0 && static_cast<float>(to[i]) == value) continue;
    if (missing && options_.not_finite != NotFinite::refuse) {
      ++left_out;
      continue;
    }
    const float shown = missing ? std::numeric_limits<float>::quiet_NaN() : value;
    fail(ExitCode::data, "{}: {}: sample {} has the class {} at {}; {}", unit.name(), target.name,
         number, shown, shape.pixel_text(i), advice_for(shown));
  }
  left_out_ += left_out;
}

void SampleTargets::read_values(const FieldReader& reader, const UnitFields& unit,
                                const SampleShape& shape, std::uint64_t number,
                                std::span<std::int32_t> to) const {
  thread_local std::vector<std::byte> stored;
  std::size_t next = 0;
  for (const StoredField& field : unit.targets()) {
    read_numbers(reader, unit, field, shape, number, stored);
    for (std::size_t at = 0; at < stored.size(); at += field.type.bytes, ++next) {
      const double value = to_double(field.type, field.packing, stored.data() + at);
      to[next] = settled(value, next, [&] {
        return fmt::format("{}: {}: sample {} has {} as number {}", unit.name(), field.name, number,
                           value, next);
      });
    }
  }
}

}  // namespace trireme
