// SPDX-License-Identifier: Apache-2.0
#include "data/fields/field_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "data/fields/index_store.h"
#include "data/fields/join.h"
#include "data/fields/split.h"
#include "data/fields/storage/filters.h"
#include "data/fields/stored_fields.h"
#include "data/files/file_tree.h"
#include "data/hdf5/child.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

// Rows that are read, put in order and scaled at a time: they stay in the cache of a core.
constexpr std::uint64_t block_bytes = 256 * 1024;
// Keys the random validation split: equal in every run.
constexpr std::uint64_t split_seed = 0x5452495245;

// A block of lines, or for filtered data enough lines that no chunk is decoded twice.
std::uint64_t lines_at_a_time(const UnitFields& unit, const SampleShape& shape) {
  const std::uint64_t all = shape.lines().count;
  const auto line_bytes =
      static_cast<std::uint64_t>(shape.pixels_of_line() * shape.channels()) * sizeof(float);
  std::uint64_t lines = std::clamp<std::uint64_t>(block_bytes / line_bytes, 1, all);
  for (std::size_t i = 0; i < unit.inputs().size(); ++i) {
    const StoredField& input = unit.inputs()[i];
    if (!input.parts.empty()) return all;
    if (input.filters.empty()) continue;
    const int axis = shape.places(i).line();
    if (axis < 0) return all;
    const std::uint64_t chunk = input.chunk_extents[static_cast<std::size_t>(axis)];
    const bool aligned = shape.first_line() % chunk == 0 && chunk < all;
    lines = aligned ? (lines + chunk - 1) / chunk * chunk : all;
  }
  return std::min(lines, all);
}

Box box_of(const ChannelRead& read, const UnitFields& unit, std::uint64_t number,
           const SampleShape& shape, const Lines& lines) {
  const AxisPlaces& axes = shape.places(read.input);
  const auto position = shape.position(unit.inputs().front(), number);
  Box box;
  const auto set = [&](int axis, std::uint64_t start, std::uint64_t count) {
    if (axis < 0) return;
    box.start[static_cast<std::size_t>(axis)] = start;
    box.count[static_cast<std::size_t>(axis)] = count;
  };
  set(axes.sample, position.sample, 1);
  set(axes.step, position.step + read.first_step, read.steps);
  set(axes.channel, read.first_channel, read.channels);
  if (axes.channel_axes > 1) {  // whole
    const std::vector<std::uint64_t>& extents = unit.inputs()[read.input].extents;
    for (const int axis : {axes.channel, axes.channel + 1})
      set(axis, 0, extents[static_cast<std::size_t>(axis)]);
  }
  shape.set_lines(box, axes, lines);
  return box;
}

}  // namespace

FieldDataset::FieldDataset(std::vector<FileIndex> indexes, const FieldOptions& options,
                           std::vector<FileIndex> targets)
    : options_(options),
      indexes_(std::move(indexes)),
      target_indexes_(std::move(targets)),
      targets_(options_),
      reader_(static_cast<std::size_t>(options.cache_megabytes * 1e6)),
      foreground_(options.seed) {
  if (!target_indexes_.empty()) join_targets(indexes_, target_indexes_, options_);
  take_units();
  check_model();
  check_patches();
  read_ = options.part ? shape_->part(*options.part) : *shape_;
  targets_.take_names(units_);
  const TargetSpec& spec = targets_.spec();
  layout_ = {.input_dtype = DType::f32,
             .inputs = read_->inputs(),
             .targets = spec.shape,
             .target_dtype = spec.kind == TargetKind::values ? DType::f32 : DType::i32,
             .weighted = !options.weight.empty()};
  const auto channels = static_cast<std::size_t>(shape_->channels());
  for (const auto* const values : {&options_.scale.subtract, &options_.scale.multiply}) {
    if (values->empty() || values->size() == channels) continue;
    fail(ExitCode::data, "data.scaling: has numbers for {} channels, but samples have {}",
         values->size(), channels);
  }
  scale_.emplace(options_.scale, shape_->channels());
  targets_.take_scale(units_.front(), *shape_);
  const auto order = [](char axis) { return std::string_view("NDHWC").find(axis); };
  in_order_ = shape_->reads().size() == 1 && options_.input_channels.empty() &&
              shape_->places().step < 0 && std::ranges::is_sorted(options_.axes, {}, order);
  choose_subset();
  fingerprint_ = make_fingerprint();
}

std::unique_ptr<FieldDataset> open_fields(const FieldOptions& options, std::size_t processes) {
  std::vector<FileIndex> targets;
  if (!options.target_files.empty())
    targets =
        scan_in_children(expand_files(options.target_files), target_request(options), processes);
  return std::make_unique<FieldDataset>(
      scan_in_children(expand_files(options.files), scan_request(options), processes), options,
      std::move(targets));
}

void FieldDataset::take_units() {
  const std::size_t wanted = scan_request(options_).fields.size() +
                             (options_.target_files.empty() ? 0 : options_.target.size());
  std::uint64_t samples = 0;
  std::set<std::string> warned;
  for (const FileIndex& file : indexes_) {
    for (const StoredUnit& stored : file.units) {
      const UnitFields unit(file, stored, options_);
      const std::string subject = unit.name();
      TRIREME_EXPECTS(stored.fields.size() == wanted, "{}: {} fields, but {} were requested",
                      subject, stored.fields.size(), wanted);
      if (!shape_) shape_.emplace(subject, unit.inputs(), options_);
      if (const auto difference = shape_->difference(unit.inputs())) {
        const UnitFields& first = units_.empty() ? unit : units_.front();
        fail(ExitCode::data,
             "{}: {}, a different shape than {}: all samples of a data set must have the same "
             "shape; name only files of one shape, or crop all to the same part with data.crop, or "
             "train on random parts with data.patches: true",
             subject, *difference, first.name());
      }
      for (const StoredField& field : stored.fields) {
        require_readable(file, field);
        require_cached(file, field, options_.cache_megabytes);
        const std::string& unused = field.packing.unused;
        if (!unused.empty() && warned.insert(unused).second)
          log::get("data").warn("{}: {}: {}", subject, field.name, unused);
      }
      require_no_text(unit);
      targets_.require(unit, *shape_);
      if (!options_.mask.empty())
        static_cast<void>(require_map(unit, unit.mask(), *shape_, MapRole::mask));
      if (!options_.weight.empty()) require_numbers(unit, unit.weight(), *shape_, "a weight");
      units_.push_back(unit);
      starts_.push_back(samples);
      samples += shape_->samples(unit.inputs());
    }
  }
  if (samples == 0) fail(ExitCode::data, "data.files: these files have no samples");
  starts_.push_back(samples);
  size_ = static_cast<std::int64_t>(samples);
}

void FieldDataset::check_model() const {
  const std::string& path = indexes_.front().path;
  const FieldOptions& wanted = options_;
  const bool depth = wanted.depth <= 0 || wanted.depth == shape_->depth();
  const bool sizes = (wanted.height == 0 || wanted.height == shape_->height()) &&
                     (wanted.width == 0 || wanted.width == shape_->width());
  if (depth && sizes && (wanted.channel_count == 0 || wanted.channel_count == shape_->channels()))
    return;
  if (shape_->is_volume())
    fail(ExitCode::data,
         "{}: samples are {} with {} channels, but the model reads {} x {} x {} with {}; set the "
         "sizes in the model section to theirs and model.channels: {}, or data.crop",
         path, shape_->size_text(), shape_->channels(), wanted.depth, wanted.height, wanted.width,
         wanted.channel_count, shape_->channels());
  fail(ExitCode::data,
       "{}: samples are {} x {} with {} channels, but the model reads {} x {} with {}; set "
       "model.image_size: {}, model.image_width: {} and model.channels: {}, or data.crop",
       path, shape_->height(), shape_->width(), shape_->channels(), wanted.height, wanted.width,
       wanted.channel_count, shape_->height(), shape_->width(), shape_->channels());
}

void FieldDataset::require_no_text(const UnitFields& unit) const {
  const bool keyed = !options_.split_key.empty() && options_.split_key != split_by_name;
  for (const StoredField& field : unit.all()) {
    const bool label =
        options_.predicted.kind == TargetKind::label && &field == &unit.targets().front();
    const bool may = label || (keyed && &field == &unit.split_key());
    if (field.is_text() && !may)
      fail(ExitCode::data, "{}: {}: holds text, but only numbers can be read", unit.name(),
           field.name);
  }
}

IdNames FieldDataset::id_names() const {
  if (targets_.class_names().empty()) return {};
  return {units_.front().name(), "", targets_.class_names()};
}

std::unique_ptr<Dataset> FieldDataset::held_back() const {
  if (options_.subset != Subset::training) return nullptr;
  FieldOptions options = options_;
  options.subset = Subset::validation;
  options.random = false;
  options.class_names = targets_.class_names();
  auto rest = std::make_unique<FieldDataset>(indexes_, options);
  if (units_.front().targets().front().is_text()) rest->require_seen(*this);
  return rest;
}

// Texts are in memory; other labels would have to be read.
void FieldDataset::require_seen(const FieldDataset& training) const {
  std::vector<bool> seen(targets_.class_names().size());
  const auto label_of = [](const FieldDataset& data, std::int64_t i) {
    std::int32_t label = 0;
    data.read_targets(i, {&label, 1});
    return static_cast<std::size_t>(label);
  };
  for (std::int64_t i = 0; i < training.size(); ++i)
    seen[label_of(training, i)] = true;
  for (std::int64_t i = 0; i < size(); ++i) {
    const std::size_t label = label_of(*this, i);
    if (!seen[label])
      fail(ExitCode::data,
           "{}: a validation sample has the label {}, which no training sample has; choose another "
           "part for validation, or leave these samples out",
           place_of(i), targets_.class_names()[label]);
  }
}

void FieldDataset::keep_index(const std::string& path) const {
  if (target_indexes_.empty()) return keep_indexes(path, scan_request(options_), indexes_);
  // Which rows a file has depends on the others.
  std::vector<FileIndex> alone = indexes_;
  for (FileIndex& file : alone) {
    for (StoredUnit& unit : file.units) {
      const auto first = unit.fields.begin() + static_cast<std::ptrdiff_t>(options_.inputs.size());
      unit.fields.erase(first, first + static_cast<std::ptrdiff_t>(options_.target.size()));
    }
  }
  keep_indexes(path, scan_request(options_), alone);
  keep_indexes(targets_index(path), target_request(options_), target_indexes_);
}

void FieldDataset::choose_subset() {
  if (options_.subset != Subset::all && !options_.split_key.empty()) {
    chosen_ = samples_by_key(reader_, units_, *shape_, options_);
    size_ = static_cast<std::int64_t>(chosen_.size());
    return;
  }
  if (options_.subset == Subset::all || options_.validation_fraction == 0) return;
  const std::int64_t all = size_;
  const auto share = static_cast<std::int64_t>(
      std::llround(static_cast<double>(all) * options_.validation_fraction));
  const std::int64_t held_back = std::clamp<std::int64_t>(share, 1, all - 1);
  if (all < 2)
    fail(ExitCode::data, "data.validation_fraction: {} of one sample leaves no sample to train on",
         options_.validation_fraction);
  order_.emplace(static_cast<std::uint64_t>(all), split_seed, 0);
  first_ = options_.subset == Subset::validation ? 0 : held_back;
  size_ = options_.subset == Subset::validation ? held_back : all - held_back;
}

std::uint64_t FieldDataset::make_fingerprint() const {
  Checksum sum;
  const auto add = [&](const std::string& text) { sum.update(std::as_bytes(std::span(text))); };
  for (const FileIndex& file : target_indexes_)
    add(fmt::format("{} {}", file.state.size, file.digest));
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
  for (const auto* const list : {&options_.input_channels, &options_.crop}) {
    for (const std::int64_t value : *list)
      add(fmt::format(" {}", value));
    add(";");
  }
  if (shape_->is_volume()) add(" volumes");
  if (options_.patches) add(" patches");
  if (targets_.spec().kind != TargetKind::label)
    add(fmt::format(" {} {}", static_cast<int>(targets_.spec().kind), options_.ignored_class));
  if (!options_.mask.empty()) add(" mask");
  if (!options_.weight.empty()) add(" weight");
  if (!options_.split_key.empty()) {
    add(fmt::format(" {} {} {}", options_.split_key, options_.validation_values,
                    options_.test_values));
  }
  for (const std::string& name : options_.class_names)
    add(fmt::format(" {}", name));
  return sum.value();
}

FieldDataset::Place FieldDataset::find(std::int64_t index) const {
  TRIREME_EXPECTS(index >= 0 && index < size_, "sample {} of {}", index, size_);
  auto number = static_cast<std::uint64_t>(index + first_);
  if (order_) number = (*order_)(number);
  if (!chosen_.empty()) number = chosen_[static_cast<std::size_t>(index)];
  const auto next = std::ranges::upper_bound(starts_, number);
  const auto which = static_cast<std::size_t>(next - starts_.begin()) - 1;
  return {units_[which], number - starts_[which]};
}

std::string FieldDataset::place_of(std::int64_t index) const {
  const Place place = find(index);
  std::string text = place.unit.name();
  if (shape_->samples(place.unit.inputs()) > 1) text += fmt::format(", sample {}", place.number);
  return text;
}

std::vector<std::string> FieldDataset::files() const {
  std::vector<std::string> paths;
  for (const FileIndex& file : indexes_) {
    paths.push_back(file.path);
    for (const StoredUnit& unit : file.units) {
      for (const StoredField& field : unit.fields)
        add_files(field, paths);
    }
  }
  return paths;
}

void FieldDataset::read(std::int64_t index, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  if (options_.patches) return read_patch(index, centre_of(index), inputs, targets);
  check_request(index, inputs, targets);
  try {
    read_part(find(index), *read_, *shape_, inputs, targets);
  } catch (const DamagedChunk& error) {
    skip(index, error, inputs, targets);
  }
}

void FieldDataset::read_part(const Place& place, const SampleShape& shape,
                             const SampleShape& of_targets, std::span<std::byte> inputs,
                             std::span<std::int32_t> targets) const {
  if (!targets.empty()) targets_.read(reader_, place.unit, of_targets, place.number, targets);
  read_input(place, shape,
             std::span(reinterpret_cast<float*>(inputs.data()), inputs.size() / sizeof(float)));
}

void FieldDataset::skip(std::int64_t index, const DamagedChunk& error, std::span<std::byte> inputs,
                        std::span<std::int32_t> targets) const {
  if (options_.damaged == Damaged::refuse) throw;  // the error that is being handled
  std::ranges::fill(inputs, std::byte{0});
  std::ranges::fill(targets, layout_.no_target());
  ++skipped_;
  log::get("data").warn("sample {} is left out (data.damaged: skip): {}", index, error.what());
}

std::int64_t FieldDataset::samples_of_chunk() const {
  std::uint64_t most = 1;
  for (std::size_t i = 0; i < options_.inputs.size(); ++i) {
    const StoredField& input = units_.front().inputs()[i];
    const int axis = shape_->places(i).sample;
    if (axis < 0 || input.filters.empty() || !input.parts.empty()) continue;
    most = std::max(most, input.chunk_extents[static_cast<std::size_t>(axis)]);
  }
  return static_cast<std::int64_t>(most * shape_->windows(units_.front().inputs().front()));
}

std::string FieldDataset::shortcomings() const {
  std::string text;
  if (skipped_ > 0)
    text = fmt::format("left out {} samples whose data did not decode", skipped_.load());
  if (not_finite_ > 0) {
    text += fmt::format("{}{} missing, NaN or infinite inputs were set to 0",
                        text.empty() ? "" : "; ", not_finite_.load());
  }
  if (targets_.left_out() > 0) {
    text += fmt::format("{}left out {} targets that were missing, NaN or infinite",
                        text.empty() ? "" : "; ", targets_.left_out());
  }
  return text;
}

void FieldDataset::read_targets(std::int64_t index, std::span<std::int32_t> to) const {
  const Place place = find(index);
  const SampleShape whole = options_.patches ? shape_->part({{}, extents_of(index)}) : *shape_;
  targets_.read(reader_, place.unit, whole, place.number, to);
}

void FieldDataset::read_input(const Place& place, const SampleShape& shape,
                              std::span<float> to) const {
  const std::uint64_t all = shape.lines().count, step = lines_at_a_time(place.unit, shape);
  const auto line = static_cast<std::size_t>(shape.pixels_of_line() * shape.channels());
  for (std::uint64_t first = 0; first < all; first += step) {
    const Lines lines{first, std::min(step, all - first)};
    read_lines(place, shape, lines, to.subspan(first * line, lines.count * line));
  }
}

void FieldDataset::read_lines(const Place& place, const SampleShape& shape, const Lines& lines,
                              std::span<float> to) const {
  read_stored(place, shape, lines, to);
  if (options_.mask.empty()) return settle(place, to);
  thread_local std::vector<float> mask;
  read_map(reader_, place.unit, place.unit.mask(), shape, MapRole::mask, place.number, lines, mask);
  const auto channels = static_cast<std::size_t>(shape.channels());
  const auto leave_out = [&](float value) {
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0 || std::isnan(mask[i]))
        std::ranges::fill(to.subspan(i * channels, channels), value);
    }
  };
  leave_out(0.0F);  // masked values are not checked
  settle(place, to);
  leave_out(options_.masked);
}

void FieldDataset::read_stored(const Place& place, const SampleShape& shape, const Lines& lines,
                               std::span<float> to) const {
  const FileIndex& file = place.unit.file();
  const std::span<const StoredField> fields = place.unit.inputs();
  if (in_order_ && fields.front().is_plain_float()) {
    return reader_.read(file, fields.front(),
                        box_of(shape.reads().front(), place.unit, place.number, shape, lines),
                        std::as_writable_bytes(to));
  }
  thread_local std::vector<std::byte> stored;
  thread_local std::vector<float> values;
  for (const ChannelRead& read : shape.reads()) {
    const StoredField& field = fields[read.input];
    const Box box = box_of(read, place.unit, place.number, shape, lines);
    std::size_t elements = 1;
    for (std::size_t i = 0; i < field.extents.size(); ++i)
      elements *= static_cast<std::size_t>(box.count[i]);
    const std::size_t bytes = elements * field.type.bytes;
    if (stored.size() < bytes) stored.resize(bytes);
    const std::span part = std::span(stored).first(bytes);
    reader_.read(file, field, box, part);
    if (!in_order_ && values.size() < elements) values.resize(elements);
    const std::span floats = in_order_ ? to : std::span(values).first(elements);
    options_.mask.empty() ? require_floats(place.unit, field, part.data(), floats)
                          : to_floats(field.type, field.packing, part.data(), floats);
    if (in_order_) return;
    place_channels(shape.places(read.input), read, shape.box_of(lines), shape.channels(),
                   values.data(), to.data());
  }
}

void FieldDataset::settle(const Place& place, std::span<float> values) const {
  transform(options_.transform, values);
  if (options_.not_finite == NotFinite::zero) {
    not_finite_ += scale_->apply_and_clear(values);
    return;
  }
  const std::uint64_t bad = scale_->apply(values);
  if (bad == 0 || options_.not_finite == NotFinite::keep) return;
  fail(ExitCode::data,
       "{}: sample {}: has an input that is missing, NaN or infinite; data.not_finite: zero sets "
       "these to 0 and counts them, and trireme data inspect --statistics counts them in all "
       "files{}",
       place.unit.name(), place.number,
       options_.transform == InputTransform::log1p
           ? "; data.transform: log1p of -1 and less is such"
           : "");
}

// A sample with an undecodable weight is skipped, like one with an undecodable input.
float FieldDataset::weight(std::int64_t index) const {
  if (!layout_.weighted) return 1.0F;
  const Place place = find(index);
  const StoredField& field = place.unit.weight();
  try {
    const double value = read_number(reader_, place.unit, field,
                                     element_of(place.unit, field, *shape_, place.number));
    if (value >= 0 && value <= std::numeric_limits<float>::max()) return static_cast<float>(value);
    fail(ExitCode::data,
         "{}: {}: sample {} has the weight {}; weights must be finite and not negative",
         place.unit.name(), field.name, place.number, value);
  } catch (const DamagedChunk& error) {
    if (options_.damaged == Damaged::refuse) throw;
    ++skipped_;
    log::get("data").warn("sample {} is left out (data.damaged: skip): {}", index, error.what());
    return 0.0F;
  }
}

}  // namespace trireme
