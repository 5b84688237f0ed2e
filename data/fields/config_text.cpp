// SPDX-License-Identifier: Apache-2.0
#include "data/fields/config_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "data/fields/describe.h"

namespace trireme {
namespace {

std::string cube_model_text(const FieldDataset& data) {
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: cosmoflow, size: {}, channels: {}, targets: {}}}\n",
      data.shape().height(), data.shape().channels(), data.layout().targets.count());
}

// For images or volumes with maps of classes: levels down to about four pixels.
std::string map_model_text(const SampleShape& shape, std::int64_t classes) {
  const auto sides = shape.pixels();
  const auto shortest = static_cast<std::uint64_t>(std::ranges::min(sides.extents()));
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: unet, {}image_size: {}, image_width: {}, channels: {}, classes: {}, "
      "filters: {}, levels: {}}}\n",
      shape.is_volume() ? fmt::format("depth: {}, ", shape.depth()) : "", shape.height(),
      shape.width(), shape.channels(), classes, shortest < 64 ? 16 : 32,
      std::clamp(static_cast<int>(std::bit_width(shortest)) - 3, 1, 4));
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

std::string image_model_text(std::int64_t height, std::int64_t width, std::int64_t channels,
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

std::string list_line(const char* key, const std::vector<std::string>& texts) {
  return texts.empty() ? "" : fmt::format("  {}: {}\n", key, yaml_list(texts));
}

}  // namespace

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
                       std::int64_t classes) {
  return image_model_text(height, width, channels,
                          fmt::format("classes: {}", std::max<std::int64_t>(classes, 2)));
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

std::string run_and_model_text(const FieldDataset& data, const FieldOptions& options,
                               std::int64_t classes) {
  const SampleShape& shape = data.shape();
  if (options.predicted.kind == TargetKind::pixels) return map_model_text(shape, classes);
  if (options.axes.find('H') == options.axes.npos) return signal_model_text(data, classes);
  if (shape.is_volume() && options.predicted.kind == TargetKind::values)
    return cube_model_text(data);
  return image_model_text(shape.height(), shape.width(), shape.channels(), head_of(data, classes));
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
  return text + fmt::format("  inputs: {}\n  target: {}\n  axes: {}\n", yaml_list(options.inputs),
                            yaml_text(options.target.front()), options.axes);
}

}  // namespace trireme
