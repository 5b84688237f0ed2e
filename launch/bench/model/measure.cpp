// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/model/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "launch/engine/data_sets.h"
#include "launch/engine/engine.h"
#include "models/config.h"
#include "runtime/base/clock.h"
#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/gemm/linear.h"

namespace trireme::model_bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t micro_batches = 2;
constexpr int min_steps = 5;

// `share` from 0 to 1; sorts a copy.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// The fastest of several runs of `enqueue`, which makes `calls` device calls.
template <typename Enqueue>
double fastest(Stream& stream, int calls, Enqueue&& enqueue) {
  constexpr int repeats = 7;
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    stream.synchronize();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i)
      enqueue();
    stream.synchronize();
    const double seconds = seconds_since(start) / calls;
    if (repeat == 0 || seconds < best) best = seconds;
  }
  return best;
}

double matmul_work(std::int64_t n) {
  return 2 * std::pow(static_cast<double>(n), 3);
}

// The rate of calls that take `run_flops` together.
double matmul_flops(Device& device, DType dtype, std::int64_t n, double run_flops) {
  const auto stream = device.make_stream(StreamKind::compute);
  const std::size_t bytes = static_cast<std::size_t>(n * n) * size_of(dtype);
  Buffer memory(device, 3 * bytes, MemoryKind::device);
  device.fill_zero(*stream, memory.data(), memory.bytes());
  const auto matrix = [&](std::size_t i) {
    return Tensor{memory.data() + i * bytes, dtype, {n, n}};
  };
  const double flops = matmul_work(n);
  const int calls = std::max(1, static_cast<int>(run_flops / flops));
  const double seconds = fastest(
      *stream, calls, [&] { ops::linear_forward(*stream, matrix(0), matrix(1), matrix(2)); });
  return flops / seconds;
}

}  // namespace

Config on_one_rank(Config config, const Environment& environment, const Provenance& where) {
  const ParallelConfig all = config.parallel;
  config.parallel = {};
  config.parallel.bucket_megabytes = all.bucket_megabytes;
  config.train.global_batch = micro_batches * config.train.micro_batch;
  config.train.batch_ramp.clear();
  Environment alone = environment;
  alone.ranks = 1;
  return resolve_config(config, alone, &where);
}

StepSeconds time_steps(Device& device, const Config& config, double seconds) {
  const std::shared_ptr<Device> borrowed(&device, [](Device*) {});
  Engine all(single_resources(borrowed), config, Purpose::train, {.batches = synthetic_batches});
  all.begin();
  StepEngine& engine = all.training().state->engine;
  BatchSource& batches = *all.training().batches;

  std::vector<double> forward, backward, optimizer, whole;
  constexpr std::int64_t warm_up = 2;
  auto start = Clock::now();
  for (std::int64_t step = 0;; ++step) {
    engine.run(step, batches);
    const Times times = engine.read(step).own.times;
    if (step < warm_up) {
      start = Clock::now();
      continue;
    }
    forward.push_back(1e-3 * times[TimePart::forward]);
    backward.push_back(1e-3 * times[TimePart::backward]);
    optimizer.push_back(1e-3 * times[TimePart::optimizer]);
    whole.push_back(1e-3 * times[TimePart::step]);
    if (whole.size() >= min_steps && seconds_since(start) > seconds) break;
  }
  engine.settle();
  // The lower quartile of a normal distribution is 0.674 deviations below its middle. Other load
  // only makes steps slower, so the lower quartile is also reported.
  constexpr double lower = 0.25;
  const double middle = quantile(whole, 0.5);
  return {.forward = quantile(forward, lower),
          .backward = quantile(backward, lower),
          .optimizer = quantile(optimizer, lower),
          .stddev = (middle - quantile(whole, lower)) / 0.674 / middle,
          .steps = static_cast<int>(whole.size())};
}

// rate(n) = flops * n / (n + half): two sizes give both. The larger one must take much longer than
// its launch: 1024 on a core, 8192 on an H100.
MatmulRates time_matmuls(Device& device, DType dtype) {
  constexpr double long_seconds = 5e-4;
  std::int64_t large = 1024;
  double at_large = matmul_flops(device, dtype, large, 0);
  while (matmul_work(large) / at_large < long_seconds) {
    large *= 2;
    at_large = matmul_flops(device, dtype, large, 0);
  }
  const std::int64_t small = large / 16;
  const double at_small = matmul_flops(device, dtype, small, matmul_work(large) / 5);
  const double of_small = static_cast<double>(small), of_large = static_cast<double>(large);
  const double half = (at_large - at_small) / (at_small / of_small - at_large / of_large);
  if (at_large <= at_small || half < 0) return {.flops = at_large};
  return {.flops = at_large * (1 + half / of_large), .half_dimension = half};
}

double time_copy(Device& device) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  // A GPU copies this in a tenth of a millisecond.
  const int calls = device.type() == DeviceType::cuda ? 4 : 1;
  const auto stream = device.make_stream(StreamKind::compute);
  Buffer memory(device, 2 * bytes, MemoryKind::device);
  device.fill_zero(*stream, memory.data(), memory.bytes());
  const double seconds = fastest(
      *stream, calls, [&] { device.copy(*stream, memory.data() + bytes, memory.data(), bytes); });
  return 2.0 * bytes / seconds;
}

double time_launch(Device& device) {
  const auto stream = device.make_stream(StreamKind::compute);
  Buffer memory(device, 2 * sizeof(float), MemoryKind::device);
  device.fill_zero(*stream, memory.data(), memory.bytes());
  const Tensor y = memory.view(DType::f32, Shape{2}).range(0, 1);
  const Tensor x = memory.view(DType::f32, Shape{2}).range(1, 1);
  constexpr int calls = 1000;
  return fastest(*stream, calls, [&] { ops::add_in_place(*stream, y, x); });
}

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

// `count` times this shape.
Shape of_samples(std::int64_t count, const Shape& sample) {
  std::vector<std::int64_t> extents{count};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  return Shape(extents);
}

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

// Draws random tokens or pixels, and targets; row i is sample i.
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
  const std::int64_t targets = batch.targets.count();
  if (model.targets.kind == TargetKind::values) {
    draw<float>(batch.targets.data, targets, 2, random, 1);
  } else {
    draw<std::int32_t>(batch.targets.data, targets, model.targets.classes, random, 1);
  }
  for (std::int64_t i = 0; i < batch.sample_ids.count(); ++i) {
    batch.sample_ids.as<std::int64_t>()[i] = i;
    batch.epochs.as<std::int64_t>()[i] = 0;
  }
}

}  // namespace

SyntheticBatches::SyntheticBatches(Device& device, const Config& config) : device_(device) {
  const ModelTraits model = traits_of(config.model);
  const std::int64_t samples = config.train.micro_batch;
  const SampleLayout layout = sample_layout(config, model);
  const Shape input = of_samples(samples, layout.inputs);
  const Shape target = of_samples(samples, layout.targets);
  const DType target_type = layout.target_dtype, input_type = layout.input_dtype;
  Places places;
  const std::size_t inputs = places.add(input, input_type);
  const std::size_t targets = places.add(target, target_type);
  const std::size_t ids = places.add({samples}, DType::i64);
  const std::size_t epochs = places.add({samples}, DType::i64);
  host_ = Buffer(device, places.bytes(), MemoryKind::host);
  memory_ = Buffer(device, places.bytes(), MemoryKind::device);
  if (device.execution() == Execution::run) {
    draw_all({.inputs = view(host_, inputs, input_type, input),
              .targets = view(host_, targets, target_type, target),
              .sample_ids = view(host_, ids, DType::i64, {samples}),
              .epochs = view(host_, epochs, DType::i64, {samples})},
             model, Philox::keyed(config.run.seed, RandomPurpose::sample));
  }
  batch_ = {.inputs = view(memory_, inputs, input_type, input),
            .targets = view(memory_, targets, target_type, target),
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
