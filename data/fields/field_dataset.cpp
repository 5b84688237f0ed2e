// SPDX-License-Identifier: Apache-2.0
#include "data/fields/field_dataset.h"

#include <algorithm>
#include <cmath>

#include "data/fields/storage/filters.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

// Rows that are read, put in order and scaled at a time: they stay in the cache of a core.
constexpr std::uint64_t block_bytes = 256 * 1024;
// Keys the order in which samples are drawn for validation: the same for every run.
constexpr std::uint64_t split_seed = 0x5452495245;

std::string name_of_unit(const FileIndex& file, const StoredUnit& unit) {
  return unit.group.empty() ? file.path : file.path + ": " + unit.group;
}

std::span<const StoredField> inputs_of(const StoredUnit& unit) {
  return std::span(unit.fields).first(unit.fields.size() - 1);
}

void require_readable(const FileIndex& file, const StoredField& field) {
  const std::string subject = fmt::format("{}: {}", file.path, field.name);
  require_known_filters(subject, field.filters);
  for (const StoredPart& part : field.parts)
    require_readable(file, part.field);
}

// Without what a copy of the files elsewhere has not.
void leave_out_places(StoredField& field) {
  field.file.clear();
  for (StoredPart& part : field.parts)
    leave_out_places(part.field);
}

}  // namespace

ScanRequest scan_request(const FieldOptions& options) {
  ScanRequest request{.fields = options.inputs,
                      .groups = options.samples == SampleUnit::group,
                      .outside_links = options.outside_links,
                      .bfloat16 = options.bfloat16};
  request.fields.push_back(options.target);
  return request;
}

FieldDataset::FieldDataset(std::vector<FileIndex> indexes, const FieldOptions& options)
    : options_(options), indexes_(std::move(indexes)), reader_(options.cache_bytes) {
  take_units();
  layout_ = {DType::f32, Shape{shape_->height(), shape_->width(), shape_->channels()}, Shape{1}};
  check_model();
  const auto channels = static_cast<std::size_t>(shape_->channels());
  for (const auto* const values : {&options_.scale.subtract, &options_.scale.multiply}) {
    if (values->empty() || values->size() == channels) continue;
    fail(ExitCode::data, "data.scaling: numbers of {} channels, and samples have {}",
         values->size(), channels);
  }
  scale_.emplace(options_.scale, shape_->channels());
  const StoredUnit& first = *units_.front().unit;
  const bool identity = shape_->reads().size() == 1 && options_.channels.empty() &&
                        shape_->places().step < 0 &&
                        (options_.axes == "HWC" || options_.axes == "HW" ||
                         options_.axes == "NHWC" || options_.axes == "NHW");
  in_order_ = identity && first.fields.front().type.is_native_float();
  choose_subset();
  fingerprint_ = make_fingerprint();
}

void FieldDataset::take_units() {
  std::uint64_t samples = 0;
  for (const FileIndex& file : indexes_) {
    for (const StoredUnit& unit : file.units) {
      const std::string subject = name_of_unit(file, unit);
      TRIREME_EXPECTS(unit.fields.size() == options_.inputs.size() + 1,
                      "{}: {} fields for {} inputs and a target", subject, unit.fields.size(),
                      options_.inputs.size());
      if (!shape_) shape_.emplace(subject, inputs_of(unit), options_);
      if (const auto difference = shape_->difference(inputs_of(unit))) {
        const Unit& first = units_.empty() ? Unit{&file, &unit} : units_.front();
        fail(ExitCode::data,
             "{}: {}, which is another shape than that of {}: samples of one data set have one "
             "shape; name the files apart, or take a part that all have by data.crop",
             subject, *difference, name_of_unit(*first.file, *first.unit));
      }
      for (const StoredField& field : unit.fields)
        require_readable(file, field);
      units_.push_back({&file, &unit});
      check_target(units_.back());
      starts_.push_back(samples);
      samples += shape_->samples(inputs_of(unit));
    }
  }
  if (samples == 0) fail(ExitCode::data, "data.files: there are no samples in them");
  starts_.push_back(samples);
  size_ = static_cast<std::int64_t>(samples);
}

void FieldDataset::check_model() const {
  const std::string& path = indexes_.front().path;
  const FieldOptions& wanted = options_;
  const bool sizes = (wanted.height == 0 || wanted.height == shape_->height()) &&
                     (wanted.width == 0 || wanted.width == shape_->width());
  if (sizes && (wanted.channel_count == 0 || wanted.channel_count == shape_->channels())) return;
  fail(ExitCode::data,
       "{}: samples are {} x {} with {} channels, and the model reads {} x {} with {}; set "
       "model.image_size: {}, model.image_width: {} and model.channels: {}, or data.crop",
       path, shape_->height(), shape_->width(), shape_->channels(), wanted.height, wanted.width,
       wanted.channel_count, shape_->height(), shape_->width(), shape_->channels());
}

// Extents that are 1 do not count; of the others the first is N with samples: axis, the next T with
// a window.
void FieldDataset::check_target(const Unit& unit) const {
  const StoredField& target = unit.unit->fields.back();
  const StoredField& input = unit.unit->fields.front();
  std::vector<std::uint64_t> extents = target.extents;
  std::erase(extents, 1U);
  std::vector<std::uint64_t> wanted;
  const AxisPlaces& places = shape_->places();
  if (places.sample >= 0) wanted.push_back(input.extents[static_cast<std::size_t>(places.sample)]);
  std::erase(wanted, 1U);
  if (extents == wanted && options_.steps_ahead == 0) return;
  if (shape_->windowed()) wanted.push_back(input.extents[static_cast<std::size_t>(places.step)]);
  if (extents == wanted) return;
  fail(ExitCode::data,
       "{}: {}: a label is one number per sample{}, and this holds {} numbers for {} samples",
       name_of_unit(*unit.file, *unit.unit), target.name,
       shape_->windowed() ? ", or per sample and step" : "", target.elements(),
       shape_->samples(inputs_of(*unit.unit)));
}

void FieldDataset::choose_subset() {
  if (options_.subset == Subset::all || options_.validation_fraction == 0) return;
  const std::int64_t all = size_;
  const auto share = static_cast<std::int64_t>(
      std::llround(static_cast<double>(all) * options_.validation_fraction));
  const std::int64_t held_back = std::clamp<std::int64_t>(share, 1, all - 1);
  if (all < 2)
    fail(ExitCode::data, "data.validation_fraction: {} of one sample leaves none to train on",
         options_.validation_fraction);
  order_.emplace(static_cast<std::uint64_t>(all), split_seed, 0);
  first_ = options_.subset == Subset::validation ? 0 : held_back;
  size_ = options_.subset == Subset::validation ? held_back : all - held_back;
}

std::uint64_t FieldDataset::make_fingerprint() const {
  Checksum sum;
  const auto add = [&](const std::string& text) { sum.update(std::as_bytes(std::span(text))); };
  for (const FileIndex& file : indexes_) {
    FileIndex plain = file;
    plain.path.clear();
    plain.state.modified = 0;
    for (StoredUnit& unit : plain.units) {
      for (StoredField& field : unit.fields)
        leave_out_places(field);
    }
    std::string bytes;
    append_index(bytes, plain);
    add(bytes);
  }
  add(fmt::format("{} {} {} {} {} {} {} {}", options_.axes, options_.window, options_.window_stride,
                  options_.steps_ahead, options_.validation_fraction,
                  static_cast<int>(options_.subset), size_, first_));
  for (const auto* const list : {&options_.channels, &options_.crop}) {
    for (const std::int64_t value : *list)
      add(fmt::format(" {}", value));
    add(";");
  }
  return sum.value();
}

FieldDataset::Place FieldDataset::find(std::int64_t index) const {
  TRIREME_EXPECTS(index >= 0 && index < size_, "sample {} of {}", index, size_);
  auto number = static_cast<std::uint64_t>(index + first_);
  if (order_) number = (*order_)(number);
  const auto next = std::ranges::upper_bound(starts_, number);
  const auto which = static_cast<std::size_t>(next - starts_.begin()) - 1;
  return {units_[which], number - starts_[which]};
}

std::string FieldDataset::place_of(std::int64_t index) const {
  const Place place = find(index);
  std::string text = name_of_unit(*place.unit.file, *place.unit.unit);
  if (shape_->samples(inputs_of(*place.unit.unit)) > 1)
    text += fmt::format(", sample {}", place.number);
  return text;
}

void FieldDataset::read(std::int64_t index, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  TRIREME_EXPECTS(inputs.size() == layout_.input_bytes() && targets.size() == 1,
                  "{} bytes and {} labels", inputs.size(), targets.size());
  const std::span values(reinterpret_cast<float*>(inputs.data()), inputs.size() / sizeof(float));
  const Place place = find(index);
  try {
    targets[0] = read_target(place);
    read_input(place, values);
  } catch (const DamagedChunk& error) {
    if (options_.damaged == Damaged::refuse) throw;
    std::ranges::fill(values, 0.0F);
    targets[0] = ignored_target;
    ++skipped_;
    log::get("data").warn("sample {} is left out (data.damaged: skip): {}", index, error.what());
  }
}

std::string FieldDataset::shortcomings() const {
  std::string text;
  if (skipped_ > 0)
    text = fmt::format("{} samples whose data did not decode were left out", skipped_.load());
  if (not_finite_ > 0) {
    text += fmt::format("{}{} NaN or infinite inputs were made 0", text.empty() ? "" : "; ",
                        not_finite_.load());
  }
  return text;
}

// A block of rows, or where data is filtered so many that no chunk is decoded for two blocks.
std::uint64_t FieldDataset::rows_at_a_time(const StoredUnit& unit) const {
  const auto height = static_cast<std::uint64_t>(shape_->height());
  const auto row_bytes =
      static_cast<std::uint64_t>(shape_->width() * shape_->channels()) * sizeof(float);
  std::uint64_t rows = std::clamp<std::uint64_t>(block_bytes / row_bytes, 1, height);
  const auto axis = static_cast<std::size_t>(shape_->places().row);
  for (const StoredField& input : inputs_of(unit)) {
    if (!input.parts.empty()) return height;
    if (input.filters.empty()) continue;
    const std::uint64_t chunk = input.chunk_extents[axis];
    const bool aligned = shape_->top() % chunk == 0 && chunk < height;
    rows = aligned ? (rows + chunk - 1) / chunk * chunk : height;
  }
  return std::min(rows, height);
}

void FieldDataset::read_input(const Place& place, std::span<float> to) const {
  const auto height = static_cast<std::uint64_t>(shape_->height());
  const std::uint64_t step = rows_at_a_time(*place.unit.unit);
  const auto row = static_cast<std::size_t>(shape_->width() * shape_->channels());
  for (std::uint64_t first = 0; first < height; first += step) {
    const std::uint64_t rows = std::min(step, height - first);
    read_rows(place, first, rows, to.subspan(first * row, rows * row));
  }
}

Box FieldDataset::box_of(const ChannelRead& read, const Place& place, std::uint64_t row,
                         std::uint64_t rows) const {
  const AxisPlaces& axes = shape_->places();
  const auto position = shape_->position(place.unit.unit->fields.front(), place.number);
  Box box;
  const auto set = [&](int axis, std::uint64_t start, std::uint64_t count) {
    if (axis < 0) return;
    box.start[static_cast<std::size_t>(axis)] = start;
    box.count[static_cast<std::size_t>(axis)] = count;
  };
  set(axes.sample, position.sample, 1);
  set(axes.step, position.step + read.first_step, read.steps);
  set(axes.channel, read.first_channel, read.channels);
  set(axes.row, shape_->top() + row, rows);
  set(axes.column, shape_->left(), static_cast<std::uint64_t>(shape_->width()));
  return box;
}

void FieldDataset::read_rows(const Place& place, std::uint64_t row, std::uint64_t rows,
                             std::span<float> to) const {
  const FileIndex& file = *place.unit.file;
  const std::vector<StoredField>& fields = place.unit.unit->fields;
  if (in_order_ && fields.front().type.is_native_float()) {
    reader_.read(file, fields.front(), box_of(shape_->reads().front(), place, row, rows),
                 std::as_writable_bytes(to));
    return settle(place, to);
  }
  thread_local std::vector<std::byte> stored;
  thread_local std::vector<float> values;
  for (const ChannelRead& read : shape_->reads()) {
    const StoredField& field = fields[read.input];
    const auto elements = static_cast<std::size_t>(read.steps * read.channels * rows *
                                                   static_cast<std::uint64_t>(shape_->width()));
    const std::size_t bytes = elements * field.type.bytes;
    if (stored.size() < bytes) stored.resize(bytes);
    if (values.size() < elements) values.resize(elements);
    const std::span part = std::span(stored).first(bytes);
    reader_.read(file, field, box_of(read, place, row, rows), part);
    to_floats(field.type, part.data(), std::span(values).first(elements));
    place_channels(shape_->places(), read, static_cast<std::int64_t>(rows), shape_->width(),
                   shape_->channels(), values.data(), to.data());
  }
  settle(place, to);
}

void FieldDataset::settle(const Place& place, std::span<float> values) const {
  if (options_.not_finite == NotFinite::zero) {
    not_finite_ += scale_->apply_and_clear(values);
    return;
  }
  const std::uint64_t bad = scale_->apply(values);
  if (bad == 0 || options_.not_finite == NotFinite::keep) return;
  fail(ExitCode::data,
       "{}: sample {}: has a NaN or infinite input; data.not_finite: zero makes these 0 and counts "
       "them, and trireme data statistics counts them in all files",
       name_of_unit(*place.unit.file, *place.unit.unit), place.number);
}

std::int32_t FieldDataset::read_target(const Place& place) const {
  const StoredField& target = place.unit.unit->fields.back();
  const auto position = shape_->position(place.unit.unit->fields.front(), place.number);
  const AxisPlaces& axes = shape_->places();
  // Element of the extents that are not 1: sample, then step.
  std::uint64_t element = position.sample;
  if (shape_->windowed()) {
    const StoredField& input = place.unit.unit->fields.front();
    const std::uint64_t steps = input.extents[static_cast<std::size_t>(axes.step)];
    const std::uint64_t along =
        axes.sample < 0 ? 1 : input.extents[static_cast<std::size_t>(axes.sample)];
    if (target.elements() == along * steps) element = element * steps + position.label_step;
  }
  Box box;
  for (std::size_t i = target.extents.size(); i-- > 0;) {
    box.start[i] = element % target.extents[i];
    box.count[i] = 1;
    element /= target.extents[i];
  }
  std::array<std::byte, 8> stored{};
  const std::span bytes = std::span(stored).first(target.type.bytes);
  reader_.read(*place.unit.file, target, box, bytes);
  const double value = to_double(target.type, bytes.data());
  const double classes =
      options_.classes > 0 ? static_cast<double>(options_.classes) : 2147483647.0;
  if (value >= 0 && value < classes && value == std::floor(value))
    return static_cast<std::int32_t>(value);
  fail(ExitCode::data, "{}: {}: sample {} has the label {}, which is none of {} classes, 0 to {}",
       name_of_unit(*place.unit.file, *place.unit.unit), target.name, place.number, value, classes,
       classes - 1);
}

}  // namespace trireme
