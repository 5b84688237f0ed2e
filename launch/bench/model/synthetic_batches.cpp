// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/model/synthetic_batches.h"

#include <array>

#include "launch/engine/data_sets.h"
#include "runtime/base/philox.h"

namespace trireme::model_bench {
namespace {

constexpr std::size_t alignment = 64;

// Places tensors one after another.
class Places {
 public:
  std::size_t add(const Shape& shape, DType dtype) {
    const std::size_t at = bytes_;
    const std::size_t size = static_cast<std::size_t>(shape.count()) * size_of(dtype);
    bytes_ += (size + alignment - 1) / alignment * alignment;
    return at;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

// Values below `limit`, keyed by their index.
template <typename T>
void draw(std::byte* to, std::int64_t count, std::int64_t limit, const Philox& random,
          std::uint64_t stream) {
  auto* const values = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(random(stream, static_cast<std::uint64_t>(i))[0] % limit);
}

Tensor view(const Buffer& memory, std::size_t offset, DType dtype, const Shape& shape) {
  return {memory.data() + offset, dtype, shape};
}

// Draws random tokens or pixels; row i is sample i.
void draw_all(const Batch& batch, const ModelTraits& model, const Philox& random) {
  const auto draw_input = [&]<typename T>(T /*type*/, std::int64_t limit) {
    draw<T>(batch.inputs.data, batch.inputs.count(), limit, random, 0);
  };
  constexpr std::int64_t pixel_values = 256;
  const bool tokens = model.input == InputKind::tokens;
  if (tokens) {
    draw_input(std::int32_t{}, model.vocabulary);
  } else if (batch.inputs.dtype == DType::f32) {
    draw_input(float{}, pixel_values);
  } else {
    draw_input(std::uint8_t{}, pixel_values);
  }
  draw<std::int32_t>(batch.targets.data, batch.targets.count(),
                     tokens ? model.vocabulary : model.classes, random, 1);
  for (std::int64_t i = 0; i < batch.sample_ids.count(); ++i) {
    batch.sample_ids.as<std::int64_t>()[i] = i;
    batch.epochs.as<std::int64_t>()[i] = 0;
  }
}

}  // namespace

SyntheticBatches::SyntheticBatches(Device& device, const Config& config) : device_(device) {
  const ModelTraits model = traits_of(config.model);
  const bool tokens = model.input == InputKind::tokens;
  const std::int64_t samples = config.train.micro_batch;
  const Shape input = tokens ? Shape{samples, model.context}
                             : Shape{samples, model.image_size, model.image_width, model.channels};
  const Shape target = tokens ? input : Shape{samples};
  const DType input_type = sample_layout(config).input_dtype;
  Places places;
  const std::size_t inputs = places.add(input, input_type);
  const std::size_t targets = places.add(target, DType::i32);
  const std::size_t ids = places.add({samples}, DType::i64);
  const std::size_t epochs = places.add({samples}, DType::i64);
  host_ = Buffer(device, places.bytes(), MemoryKind::host);
  memory_ = Buffer(device, places.bytes(), MemoryKind::device);
  if (device.execution() == Execution::run) {
    draw_all({.inputs = view(host_, inputs, input_type, input),
              .targets = view(host_, targets, DType::i32, target),
              .sample_ids = view(host_, ids, DType::i64, {samples}),
              .epochs = view(host_, epochs, DType::i64, {samples})},
             model, Philox::keyed(config.run.seed, RandomPurpose::sample));
  }
  batch_ = {.inputs = view(memory_, inputs, input_type, input),
            .targets = view(memory_, targets, DType::i32, target),
            .sample_ids = view(memory_, ids, DType::i64, {samples}),
            .epochs = view(memory_, epochs, DType::i64, {samples})};
}

std::unique_ptr<BatchSource> synthetic_batches(Device& device, const Config& config) {
  return std::make_unique<SyntheticBatches>(device, config);
}

const Batch& SyntheticBatches::next(Stream& /*copy*/, Stream& compute) {
  if (!filled_) device_.copy(compute, memory_.data(), host_.data(), memory_.bytes());
  filled_ = true;
  return batch_;
}

}  // namespace trireme::model_bench
