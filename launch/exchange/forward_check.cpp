// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/forward_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "launch/engine/engine.h"
#include "launch/engine/text/decoder.h"
#include "models/config.h"
#include "runtime/checkpoint/files/safetensors.h"

namespace trireme {
namespace {

constexpr double tolerance = 1e-4;
constexpr std::int64_t fixed_tokens = 16;

constexpr const char* ids_name = "input_ids";
constexpr const char* mask_name = "attention_mask";
constexpr const char* pixels_name = "pixel_values";
constexpr const char* logits_name = "logits";

bool reads_tokens(const ModelTraits& traits) {
  return traits.input == InputKind::tokens;
}

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const char* name) {
  std::vector<T> values(file.bytes(name) / sizeof(T));
  file.read(name, values.data(), file.bytes(name));
  return values;
}

// (B, C, H, W) <-> (B, H, W, C): transposes `from` as a rows x columns matrix per image.
std::vector<float> turned(const std::vector<float>& from, std::int64_t rows, std::int64_t columns) {
  std::vector<float> to(from.size());
  const std::int64_t picture = rows * columns;
  for (std::int64_t i = 0; i < std::ssize(from); ++i) {
    const std::int64_t at = i % picture;
    to[static_cast<std::size_t>(i - at + at % columns * rows + at / columns)] =
        from[static_cast<std::size_t>(i)];
  }
  return to;
}

void require(const SafetensorsFile& file, const char* name, bool right_type, const Shape& wanted) {
  if (right_type && file.shape(name) == wanted) return;
  fail(ExitCode::checkpoint, "{}: {} is {} {}, but the model needs {}", file.path(), name,
       name_of(file.dtype(name)), file.shape(name).to_string(), wanted.to_string());
}

// Of a head of samples or of their tokens.
Shape logits_of(const ModelTraits& traits, const Shape& inputs) {
  const TargetSpec& targets = traits.targets;
  if (targets.kind == TargetKind::values) return {inputs[0], targets.shape.count()};
  if (traits.items_per_sample() == 1) return {inputs[0], targets.classes};
  return {inputs[0], inputs[1], targets.classes};
}

// Texts of labels end before the padding, which is then a document of its own.
void read_mask(const SafetensorsFile& file, const ModelTraits& traits, Expectations& expected) {
  if (!traits.labelled_text() || !file.contains(mask_name)) return;
  require(file, mask_name, file.dtype(mask_name) == DType::i64, expected.inputs_shape);
  const std::int64_t length = expected.inputs_shape[1];
  const auto mask = values_of<std::int64_t>(file, mask_name);
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < std::ssize(mask); ++i) {
    if (i % length == 0) end = std::count(mask.begin() + i, mask.begin() + i + length, 1);
    expected.starts.push_back(static_cast<std::int32_t>(i % length < end ? 0 : end));
  }
}

void read_tokens(const SafetensorsFile& file, const ModelTraits& traits, Expectations& expected) {
  const DType dtype = file.dtype(ids_name);
  const Shape shape = file.shape(ids_name);
  const bool right_type = dtype == DType::i32 || dtype == DType::i64;
  if (shape.rank() != 2 || shape.count() == 0 || !right_type)
    fail(ExitCode::checkpoint, "{}: {} is {} {}, not (texts, tokens) of i32 or i64", file.path(),
         ids_name, name_of(dtype), shape.to_string());
  if (shape[1] > traits.context || (!traits.generates && shape[1] != traits.context))
    fail(ExitCode::checkpoint, "{}: texts of {} tokens, but the model reads {}{}", file.path(),
         shape[1], traits.generates ? "at most " : "", traits.context);
  const auto add = [&](std::int64_t token) {
    if (token < 0 || token >= traits.vocabulary)
      fail(ExitCode::checkpoint, "{}: token id {} lies outside the model's vocabulary [0, {})",
           file.path(), token, traits.vocabulary);
    expected.tokens.push_back(static_cast<std::int32_t>(token));
  };
  if (dtype == DType::i32) {
    std::ranges::for_each(values_of<std::int32_t>(file, ids_name), add);
  } else {
    std::ranges::for_each(values_of<std::int64_t>(file, ids_name), add);
  }
  expected.inputs_shape = shape;
  expected.logits_shape = logits_of(traits, shape);
  read_mask(file, traits, expected);
}

void read_pixels(const SafetensorsFile& file, const ModelTraits& traits, Expectations& expected) {
  const Shape shape = file.shape(pixels_name);
  const std::int64_t texts = shape.rank() == 4 ? shape[0] : 1;
  const Shape wanted{texts, traits.channels, traits.image_size, traits.image_width};
  require(file, pixels_name, file.dtype(pixels_name) == DType::f32 && texts > 0, wanted);
  expected.inputs_shape = {texts, wanted[2], wanted[3], wanted[1]};
  expected.pixels = turned(values_of<float>(file, pixels_name), wanted[1], wanted[2] * wanted[3]);
  expected.logits_shape = logits_of(traits, expected.inputs_shape);
}

// Inputs that depend only on the model's sizes.
Expectations fixed_inputs(const ModelTraits& traits) {
  Expectations fixed;
  if (reads_tokens(traits)) {
    const std::int64_t length =
        traits.generates ? std::min(fixed_tokens, traits.context) : traits.context;
    fixed.inputs_shape = {2, length};
    for (std::int64_t i = 0; i < fixed.inputs_shape.count(); ++i)
      fixed.tokens.push_back(static_cast<std::int32_t>((7919 * i + 13) % traits.vocabulary));
  } else {
    fixed.inputs_shape = {1, traits.image_size, traits.image_width, traits.channels};
    for (std::int64_t i = 0; i < fixed.inputs_shape.count(); ++i)
      fixed.pixels.push_back(static_cast<float>(37 * i % 255) / 127.5F - 1.0F);
  }
  fixed.logits_shape = logits_of(traits, fixed.inputs_shape);
  return fixed;
}

// A config without data.
Config config_for(const ModelConfig& model, std::int64_t samples) {
  Config config = default_config();
  config.model = model;
  config.precision = Precision::fp32;
  config.device.type = DeviceChoice::cpu;
  config.train.micro_batch = config.train.global_batch = samples;
  return resolve_config(std::move(config), {}, nullptr, Purpose::generate);
}

// One token at a time through the cache, so only one row of logits per text is held.
std::vector<float> decoded(Session& session, const Expectations& inputs) {
  Decoder decoder(session);
  const std::int64_t texts = inputs.inputs_shape[0], length = inputs.inputs_shape[1];
  const auto columns = static_cast<std::size_t>(inputs.logits_shape[2]);
  std::vector<float> logits(static_cast<std::size_t>(inputs.logits_shape.count()));
  std::vector<Decoder::Piece> pieces(static_cast<std::size_t>(texts));
  const auto place = [&](std::int64_t text, std::int64_t t) {
    return static_cast<std::size_t>(text * length + t);
  };
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t text = 0; text < texts; ++text)
      pieces[static_cast<std::size_t>(text)] = {
          t, std::span(inputs.tokens).subspan(place(text, t), 1)};
    decoder.read(pieces, /*wanted=*/true);
    for (std::int64_t text = 0; text < texts; ++text) {
      const auto row = decoder.logits(static_cast<int>(text));
      std::ranges::copy(row.first(columns),
                        logits.begin() + static_cast<std::ptrdiff_t>(place(text, t) * columns));
    }
  }
  return logits;
}

// A pass over whole samples, on the CPU, whose memory the host can read.
std::vector<float> passed(Session& session, const Expectations& inputs) {
  const std::int64_t samples = inputs.inputs_shape[0];
  const HeadInfo& head = session.model->head();
  const bool values = head.kind == TargetKind::values;
  std::vector<std::int32_t> targets(
      static_cast<std::size_t>(head.targets),
      values ? std::bit_cast<std::int32_t>(std::numeric_limits<float>::quiet_NaN())
             : ignored_target);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples), 0);
  const auto tensor = [](const auto& values, DType dtype, const Shape& shape) {
    auto* const data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data()));
    return Tensor{data, dtype, shape};
  };
  const Tensor numbers = tensor(ids, DType::i64, Shape{samples});
  const bool tokens = !inputs.tokens.empty();
  Batch batch{
      tokens ? tensor(inputs.tokens, DType::i32, inputs.inputs_shape)
             : tensor(inputs.pixels, DType::f32, inputs.inputs_shape),
      tensor(targets, values ? DType::f32 : DType::i32, Shape{samples, head.targets / samples}),
      numbers, numbers};
  if (!inputs.starts.empty())
    batch.document_starts = tensor(inputs.starts, DType::i32, inputs.inputs_shape);
  Context context = session.model->context(*session.streams.compute, batch, /*training=*/false);
  context.tensor = &session.tensor;
  context.experts = session.experts;
  session.model->forward(context);
  session.streams.compute->synchronize();
  const Tensor rows = context(head.logits);  // (targets, padded classes)
  std::vector<float> logits;
  const std::int64_t width = rows.shape.back();
  for (std::int64_t row = 0; row < rows.count() / width; ++row) {
    const float* const first = rows.as<float>() + row * width;
    logits.insert(logits.end(), first, first + inputs.logits_shape.back());
  }
  return logits;
}

std::vector<float> forward(const Expectations& inputs, const ModelConfig& model,
                           const WeightsChoice& weights) {
  const bool generates = traits_of(model).generates;
  const std::shared_ptr<Device> device = Device::create(DeviceType::cpu);
  Engine engine(single_resources(device), config_for(model, inputs.inputs_shape[0]),
                generates ? Purpose::generate : Purpose::evaluate,
                {.text_capacity = generates ? inputs.inputs_shape[1] : 0});
  static_cast<void>(engine.load_weights("", weights));
  return generates ? decoded(engine.session(), inputs) : passed(engine.session(), inputs);
}

std::string place_of(std::int64_t element, const Shape& shape) {
  const std::int64_t columns = shape.back(), row = element / columns;
  if (shape.rank() == 2) return fmt::format("sample {}, output {}", row, element % columns);
  return fmt::format("text {}, position {}, class {}", row / shape[1], row % shape[1],
                     element % columns);
}

}  // namespace

std::optional<Expectations> read_expectations(const std::string& directory,
                                              const ModelConfig& model) {
  Expectations expected{.path = directory + "/" + expectations_file};
  if (!std::filesystem::exists(expected.path)) return std::nullopt;
  const SafetensorsFile file(expected.path);
  const ModelTraits traits = traits_of(model);
  if (reads_tokens(traits)) {
    read_tokens(file, traits, expected);
  } else {
    read_pixels(file, traits, expected);
  }
  require(file, logits_name, file.dtype(logits_name) == DType::f32, expected.logits_shape);
  expected.logits = values_of<float>(file, logits_name);
  return expected;
}

void check_forward(const Expectations& expected, const ModelConfig& model,
                   const WeightsChoice& weights) {
  const std::vector<float> logits = forward(expected, model, weights);
  double largest = 1, worst = -1;
  std::size_t at = 0;
  const auto columns = static_cast<std::size_t>(expected.logits_shape.back());
  const bool of_tokens = expected.logits_shape.rank() == 3 && !expected.starts.empty();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (of_tokens && expected.starts[i / columns] > 0) continue;  // what padding gives says nothing
    largest = std::max(largest, std::abs(static_cast<double>(expected.logits[i])));
    const double difference =
        std::abs(static_cast<double>(logits[i]) - static_cast<double>(expected.logits[i]));
    if (!(difference <= worst)) {  // NaN is the worst
      worst = difference;
      at = i;
    }
    if (std::isnan(worst)) break;
  }
  if (!(worst <= tolerance * largest))
    fail(ExitCode::checkpoint,
         "{}: the imported weights give other logits: the largest difference of logits is {:.3g}, "
         "{:.6g} here and {:.6g} there, at {} (allowed: {:.3g})",
         expected.path, worst, logits[at], expected.logits[at],
         place_of(static_cast<std::int64_t>(at), expected.logits_shape), tolerance * largest);
  fmt::print("{} logits as in {}: the largest difference is {:.3g}\n", logits.size(),
             expectations_file, worst);
}

void write_expectations(const std::string& directory, const ModelConfig& model,
                        const WeightsChoice& weights) {
  Expectations fixed = fixed_inputs(traits_of(model));
  std::vector<float> logits = forward(fixed, model, weights);
  const auto bytes = [](auto& values) { return reinterpret_cast<std::byte*>(values.data()); };
  std::vector<float> pixels;
  NamedTensor inputs{ids_name, {bytes(fixed.tokens), DType::i32, fixed.inputs_shape}};
  if (!fixed.pixels.empty()) {
    const Shape& shape = fixed.inputs_shape;  // (B, H, W, C)
    pixels = turned(fixed.pixels, shape[1] * shape[2], shape[3]);
    inputs = {pixels_name, {bytes(pixels), DType::f32, {shape[0], shape[3], shape[1], shape[2]}}};
  }
  const std::vector<NamedTensor> tensors = {
      inputs, {logits_name, {bytes(logits), DType::f32, fixed.logits_shape}}};
  write_safetensors(directory + "/" + expectations_file, tensors, {{"format", "pt"}},
                    ExitCode::internal);
  fmt::print("{}/{}: {} logits\n", directory, expectations_file, logits.size());
}

}  // namespace trireme
