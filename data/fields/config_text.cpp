// SPDX-License-Identifier: Apache-2.0
#include "data/fields/config_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <span>

#include "data/fields/describe.h"
#include "data/fields/statistics.h"
#include "runtime/base/error.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

// Down to about four pixels.
int halvings_of(std::int64_t side, int most) {
  return std::clamp(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(side))) - 3, 1,
                    most);
}

// The head of a model of samples.
std::string head_of(const FieldDataset& data, std::int64_t classes) {
  if (data.layout().target_dtype == DType::f32)
    return fmt::format("head: values, targets: {}", data.layout().targets.count());
  return fmt::format("classes: {}", std::max<std::int64_t>(classes, 2));
}

// Of tables and signals: a convolution for every fourfold length above 8.
std::string signal_model_text(const FieldDataset& data, std::int64_t classes) {
  const SampleShape& shape = data.shape();
  std::vector<std::int64_t> convolutions;
  for (std::int64_t rest = shape.width(), width = 16; rest > 8 && width <= 128; rest /= 4) {
    for (int i = 0; i < 2; ++i)
      convolutions.push_back(width);
    width *= 2;
  }
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: mlp, length: {}, channels: {}, convolutions: [{}], {}}}\n",
      shape.width(), shape.channels(), fmt::join(convolutions, ", "), head_of(data, classes));
}

std::string run_and_model_text(const FieldDataset& data, const FieldOptions& options,
                               std::int64_t classes) {
  const SampleShape& shape = data.shape();
  if (options.predicted.kind == TargetKind::pixels)
    return map_model_text(shape, 32, fmt::format("classes: {}", classes));
  if (options.predicted.is_value_map())
    return map_model_text(shape, 32, fmt::format("values: {}", data.layout().targets.back()));
  if (options.axes.find('H') == options.axes.npos) return signal_model_text(data, classes);
  if (shape.is_volume() && options.predicted.kind == TargetKind::values)
    return fmt::format(
        "run: {{directory: runs/described}}\n"
        "model: {{family: cosmoflow, size: {}, channels: {}, targets: {}, halvings: {}}}\n",
        shape.height(), shape.channels(), data.layout().targets.count(),
        halvings_of(shape.height(), 5));
  return model_text(shape.height(), shape.width(), shape.channels(), head_of(data, classes));
}

std::string list_line(const char* key, const std::vector<std::string>& texts) {
  return texts.empty() ? "" : fmt::format("  {}: {}\n", key, yaml_list(texts));
}

std::string place_text(const FieldDataset& data, const FieldOptions& options) {
  std::string text = list_line("files", options.files);
  text += list_line("target_files", options.target_files);
  text += list_line("validation_files", options.validation_files);
  text += list_line("validation_target_files", options.validation_target_files);
  if (!options.validation_inputs.empty()) {
    text += list_line("validation_inputs", options.validation_inputs);
    text += list_line("validation_target", options.validation_target);
  } else if (!options.validation_group_list.empty()) {
    text += fmt::format("  group_list: {}\n  validation_group_list: {}\n",
                        yaml_text(options.group_list), yaml_text(options.validation_group_list));
  } else if (options.validation_files.empty() && data.size() >= 20) {
    text += "  validation_fraction: 0.1\n";
  }
  text += fmt::format("  samples: {}\n", name_of(options.samples));
  if (options.groups != "*") text += fmt::format("  groups: {}\n", yaml_text(options.groups));
  if (options.patches) text += "  patches: true    # samples differ in size, or are large\n";
  return text + fmt::format("  inputs: {}\n  target: {}\n  axes: {}\n", yaml_list(options.inputs),
                            yaml_text(options.target.front()), options.axes);
}

// Evenly spread samples.
std::int64_t looked_samples(const FieldDataset& data) {
  return std::min<std::int64_t>(64, data.size());
}

// Along which axis two ranks of spatial parallelism read and decode the least: whole chunks, or of
// unchunked data what lies together. The outer axis of equal ones.
std::string cut_text(const FieldDataset& data) {
  const StoredField& input = data.indexes().front().units.front().fields.front();
  const AxisPlaces& places = data.shape().places();
  const bool chunked = input.chunk_extents != input.extents || !input.filters.empty();
  std::string_view best;
  double least = 2;
  int outermost = 0;
  for (const auto& [name, place] :
       {std::pair{"depth", places.depth}, std::pair{"height", places.row},
        std::pair{"width", places.column}}) {
    if (place < 0 || !input.parts.empty()) continue;
    const auto axis = static_cast<std::size_t>(place);
    const std::uint64_t extent = input.extents[axis], half = (extent + 1) / 2;
    const std::uint64_t chunk = chunked ? input.chunk_extents[axis] : 1;
    const std::uint64_t read = std::min((half + chunk - 1) / chunk * chunk, extent);
    const double share = static_cast<double>(read) / static_cast<double>(extent);
    if (share > least || (share == least && place > outermost)) continue;
    best = name;
    least = share;
    outermost = place;
  }
  if (best.empty()) return "";
  return fmt::format(
      "# two ranks of spatial parallelism (parallel.spatial) read {:.0f} % each if they "
      "cut the {}\n",
      100 * least, best);
}

// Brings numbers to predict to -1 to 1 unless they are about there. Of maps by their channels, and
// of as many samples as can be read soon.
std::string target_scale_text(const FieldDataset& data) {
  constexpr double largest = std::numeric_limits<double>::max();
  constexpr std::int64_t most_numbers = 1 << 28;
  const Shape& targets = data.layout().targets;
  std::vector<std::int32_t> bits(static_cast<std::size_t>(targets.count()));
  std::vector<double> low(static_cast<std::size_t>(targets.back()), largest),
      high(low.size(), -largest);
  for (std::int64_t i = 0; i < data.size() && i * targets.count() < most_numbers; ++i) {
    data.read_targets(i, bits);
    for (std::size_t k = 0; k < bits.size(); ++k) {
      const double value = std::bit_cast<float>(bits[k]);
      if (!std::isfinite(value)) continue;
      low[k % low.size()] = std::min(low[k % low.size()], value);
      high[k % low.size()] = std::max(high[k % low.size()], value);
    }
  }
  constexpr double about_one = 1.2;
  bool scaled = true;
  for (std::size_t k = 0; k < low.size(); ++k) {
    if (low[k] > high[k]) low[k] = high[k] = 0;  // missing in all samples
    scaled = scaled && low[k] >= -about_one && high[k] <= about_one;
    const double middle = (low[k] + high[k]) / 2, half = (high[k] - low[k]) / 2;
    low[k] = middle;
    high[k] = half > 0 ? half : 1;
  }
  if (scaled) return "";
  return fmt::format(
      "  target_mean: [{:.6g}]\n  target_std: [{:.6g}]    # all are then from about -1 to 1\n",
      fmt::join(low, ", "), fmt::join(high, ", "));
}

std::string config_text(const FieldOptions& options, const FieldDataset& data,
                        std::int64_t classes) {
  std::string text =
      run_and_model_text(data, options, classes) + "data:\n" + place_text(data, options);
  if (options.ignored_class != ignored_target)
    text += fmt::format("  ignored_class: {}\n", options.ignored_class);
  if (options.predicted.kind == TargetKind::values) text += target_scale_text(data);
  if (data.input_transform() == InputTransform::log1p)
    text += "  transform: log1p    # counts, from 0 on\n";
  return text + scaling_text(data, 0) + training_text(data.size());
}

// `what`: the targets.
Description reading_of(const FieldDataset& data, const FieldOptions& options, std::int64_t classes,
                       const std::string& what) {
  return {fmt::format("# {} samples of {} with {} channels; {}\n", data.size(),
                      data.shape().size_text(), data.shape().channels(), what) +
              (options.predicted.kind == TargetKind::label ? "" : cut_text(data)) +
              config_text(options, data, classes),
          ""};
}

Description described_labels(const FieldDataset& data, const FieldOptions& options) {
  constexpr std::int64_t most = 1 << 16;
  std::set<std::int64_t> values;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::int32_t value = 0;
    data.read_targets(i, {&value, 1});
    values.insert(value);
  }
  const std::vector<std::string> names = data.id_names().classes;
  const std::int64_t last = *values.rbegin(),
                     classes = names.empty() ? last + 1 : std::ssize(names);
  if (data.size() > 1 && values.size() == 1)
    return {"", fmt::format("all {} samples have the label {}", data.size(),
                            names.empty() ? fmt::format("{}", last) : names[0])};
  if (data.size() > 2 && std::ssize(values) == data.size() &&
      !sounds_like_label(options.target.front()))
    return {"", "every sample has another value: these are numbers of samples, not classes"};
  if (last > most) return {"", fmt::format("{} is too large for a class", last)};
  return reading_of(
      data, options, classes,
      "labels " + (names.empty() ? fmt::format("0 to {}", last) : shown_names(names)));
}

// The same files with other options.
std::unique_ptr<FieldDataset> reopened(const FieldDataset& data, FieldOptions options) {
  options.target_files.clear();  // joined already
  return std::make_unique<FieldDataset>(data.indexes(), options);
}

Description described_values(const FieldDataset& data, FieldOptions options) {
  const StoredField& input = data.indexes().front().units.front().fields.front();
  const auto counts = [](const ChannelStatistics& of) { return of.minimum >= 0; };
  const bool whole = input.type.kind == ElementKind::signed_integer ||
                     input.type.kind == ElementKind::unsigned_integer;
  if (whole && data.shape().is_volume() &&
      std::ranges::all_of(statistics_of(data, looked_samples(data)), counts))
    options.transform = InputTransform::log1p;
  const std::unique_ptr<FieldDataset> transformed = reopened(data, options);
  const Shape& targets = data.layout().targets;
  return reading_of(*transformed, options, 0,
                    fmt::format("{} numbers to predict{}", targets.back(),
                                targets.rank() > 1 ? " for each pixel" : ""));
}

// Of as many samples as can be read soon.
std::set<std::int64_t> classes_of_maps(const FieldDataset& data) {
  constexpr std::int64_t most_pixels = 1 << 28;
  std::vector<std::int32_t> map;
  std::set<std::int64_t> found;
  std::int64_t pixels = 0;
  for (std::int64_t i = 0; i < data.size() && pixels < most_pixels; ++i) {
    const auto [depth, height, width] = data.extents_of(i);
    map.resize(static_cast<std::size_t>(depth * height * width));
    data.read_targets(i, map);
    pixels += std::ssize(map);
    for (std::size_t k = 0; k < map.size(); ++k) {
      if (map[k] >= 0 && (k == 0 || map[k] != map[k - 1])) found.insert(map[k]);
    }
  }
  return found;
}

Description described_maps(const FieldDataset& data, FieldOptions options) {
  constexpr std::int64_t most = 1000, many_times = 16, no_class = 255;
  std::set<std::int64_t> found = classes_of_maps(data);
  // A single 255 above them means no class.
  if (found.size() > 2 && *found.rbegin() == no_class && !found.contains(no_class - 1)) {
    options.ignored_class = no_class;
    found.erase(no_class);
  }
  if (found.size() < 2) return {"", "its maps have one class or none"};
  const std::int64_t last = *found.rbegin();
  std::int64_t step = 0;
  for (const std::int64_t each : found)
    step = std::gcd(step, each);
  if (last > most || last >= many_times * std::ssize(found))
    return {"", fmt::format("its maps hold {} numbers up to {}, but classes are 0, 1, 2 and so on; "
                            "the attribute scale_factor = 1.0 / {} divides them",
                            found.size(), last, step)};
  return reading_of(data, options, last + 1, fmt::format("maps of classes 0 to {}", last));
}

FieldOptions options_of(const Guess& found, const DescribedFiles& files) {
  FieldOptions options{{.files = files.names,
                        .samples = found.unit,
                        .groups = found.groups,
                        .inputs = {found.input},
                        .target = {found.target},
                        .axes = found.axes,
                        .not_finite = NotFinite::keep}};
  if (found.volume) options.depth = any_depth;
  options.predicted.kind = found.predicted;
  if (found.maps) options.predicted.shape = Shape{1, 0};
  options.group_list = found.group_list;
  options.validation_group_list = found.validation_group_list;
  const bool validates = !found.validation_input.empty();
  if (files.arrays.empty()) {
    if (!validates) return options;
    options.validation_inputs = {found.validation_input};
    options.validation_target = {found.validation_target};
    return options;
  }
  options.inputs = options.target = {"array"};
  options.files = {files.arrays.at(found.input)};
  options.target_files = {files.arrays.at(found.target)};
  if (!validates) return options;
  options.validation_files = {files.arrays.at(found.validation_input)};
  options.validation_target_files = {files.arrays.at(found.validation_target)};
  return options;
}

// Sets what follows from all files: patches of samples that differ in size or are large, and the
// class of a map that an attribute calls missing.
std::unique_ptr<FieldDataset> open_any(FieldOptions& options, std::size_t processes) {
  constexpr std::int64_t large = 1 << 23, most_side = 128, step = 16;
  const bool maps = options.predicted.kind == TargetKind::pixels;
  const bool cuts = (maps || options.predicted.kind == TargetKind::label) &&
                    options.axes.find('H') != options.axes.npos;
  std::unique_ptr<FieldDataset> data;
  try {
    data = open_fields(options, processes);
  } catch (const Error& error) {
    if (!cuts || error.code() != ExitCode::data) throw;
  }
  const bool volumes = options.depth != 0;
  if (data == nullptr || (maps && volumes && data->shape().pixels().count() > large)) {
    options.patches = true;
    options.depth = volumes ? 1 : 0;
    options.height = options.width = 1;
    data = open_fields(options, processes);
    Voxel side{most_side, 2 * most_side, 2 * most_side};
    if (volumes) side.fill(most_side);
    for (std::int64_t i = 0; i < data->size(); ++i)
      std::ranges::transform(side, data->extents_of(i), side.begin(), std::ranges::min);
    for (std::int64_t& each : side)
      each -= each < step ? 0 : each % step;
    options.depth = volumes ? side[0] : 0;
    options.height = side[1];
    options.width = side[2];
    data = reopened(*data, options);
  }
  const auto& missing = data->indexes().front().units.front().fields[1].packing.missing;
  if (!maps || missing.size() != 1 || missing[0] != std::floor(missing[0]) ||
      std::abs(missing[0]) > std::numeric_limits<std::int32_t>::max())
    return data;
  options.ignored_class = static_cast<std::int64_t>(missing[0]);
  return reopened(*data, options);
}

}  // namespace

std::string scaling_text(const FieldDataset& data, double least) {
  std::vector<double> means, deviations;
  std::uint64_t not_finite = 0;
  for (const ChannelStatistics& of : statistics_of(data, looked_samples(data))) {
    means.push_back(of.mean);
    deviations.push_back(of.deviation > 0 || least > 0 ? std::max(of.deviation, least) : 1.0);
    not_finite += of.not_finite;
  }
  std::string text;
  if (not_finite > 0 || data.targets_left_out() > 0)
    text = fmt::format(
        "  not_finite: zero    # {} values of {} samples{} are missing, NaN or infinite\n",
        not_finite, looked_samples(data),
        data.targets_left_out() > 0 ? ", and some to predict," : "");
  return fmt::format(
      "{}  scaling: mean_std   # of {} samples; of all: trireme data inspect --statistics\n"
      "  mean: [{:.6g}]\n  std: [{:.6g}]\n",
      text, looked_samples(data), fmt::join(means, ", "), fmt::join(deviations, ", "));
}

std::string map_model_text(const SampleShape& shape, int filters, const std::string& predicted) {
  const auto pixels = shape.pixels();
  const std::int64_t shortest = std::ranges::min(pixels.extents());
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: unet, {}image_size: {}, image_width: {}, channels: {}, {}, "
      "filters: {}, levels: {}}}\n",
      shape.is_volume() ? fmt::format("depth: {}, ", shape.depth()) : "", shape.height(),
      shape.width(), shape.channels(), predicted, shortest < 64 ? 16 : filters,
      halvings_of(shortest, 4));
}

std::string yaml_text(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "\"";
}

std::string yaml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  std::ranges::transform(texts, std::back_inserter(words), yaml_text);
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::string model_text(std::int64_t height, std::int64_t width, std::int64_t channels,
                       const std::string& head) {
  const std::int64_t side = std::min(height, width);
  const bool small = side < 64;
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: resnet, block: basic, stem: {}, stages: {}, width: {}, image_size: {}, "
      "image_width: {}, channels: {}, {}}}\n",
      small ? "small" : "imagenet", side >= 8 ? "[2, 2, 2, 2]" : "[2]", small ? 16 : 64, height,
      width, channels, head);
}

std::string training_text(std::int64_t samples) {
  std::int64_t batch = 32;
  while (batch > 1 && batch > samples / 2)
    batch /= 2;
  return fmt::format(
      "train: {{steps: 100, global_batch: {}, micro_batch: {}, log_every: 10}}\n"
      "optimizer: {{name: adamw, learning_rate: 1e-3}}\n",
      batch, std::clamp<std::int64_t>(batch / 8, 1, 4));
}

Description described_as(const Guess& found, const DescribedFiles& files, std::size_t processes) {
  try {
    FieldOptions options = options_of(found, files);
    const std::unique_ptr<FieldDataset> data = open_any(options, processes);
    if (found.predicted == TargetKind::values) return described_values(*data, options);
    if (found.predicted == TargetKind::pixels) return described_maps(*data, options);
    return described_labels(*data, options);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return {"", error.what()};
  }
}

std::string shown_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4, longest = 32;
  std::string text = names.size() > 1 ? fmt::format("{} different: ", names.size()) : "";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i].substr(0, longest));
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return text + (names.size() > most ? ", ..." : "");
}

}  // namespace trireme
