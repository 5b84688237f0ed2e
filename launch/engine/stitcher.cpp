// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/stitcher.h"

#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/loss/cross_entropy.h"
#include "runtime/ops/loss/mean_iou.h"

namespace trireme {
namespace {

std::vector<float> gauss(std::int64_t extent) {
  const double centre = 0.5 * static_cast<double>(extent - 1),
               std = static_cast<double>(extent) / 8;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < extent; ++i) {
    const double away = (static_cast<double>(i) - centre) / std;
    weights.push_back(static_cast<float>(std::exp(-0.5 * away * away)));
  }
  return weights;
}

template <typename T>
Tensor view(std::vector<T>& values, DType dtype, const Shape& shape) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype, shape};
}

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values)
    sum += static_cast<double>(value);
  return sum;
}

}  // namespace

Stitcher::Stitcher(const SlidingWindows& windows, Device& device, const HeadInfo& head, int rank,
                   const TrainConfig& train)
    : windows_(windows),
      device_(device),
      head_(head),
      rank_(rank),
      dice_(train.loss == LossChoice::dice_cross_entropy),
      copy_(device, static_cast<std::size_t>(head.logits.shape.count()) * sizeof(float),
            MemoryKind::host),
      host_(Device::create(DeviceType::cpu)),
      stream_(host_->make_stream(StreamKind::compute)) {
  std::ranges::transform(windows.window(), gauss_.begin(), gauss);
}

void Stitcher::take(Stream& stream, const Tensor& logits) {
  const auto own = windows_.of_rank(rank_);
  const Tensor copy = copy_.view(logits.dtype, logits.shape);
  device_.copy(stream, copy.data, logits.data, logits.bytes());
  stream.synchronize();
  logits_.resize(static_cast<std::size_t>(logits.count()));
  ops::cast(*stream_, view(logits_, DType::f32, logits.shape), copy);
  stream_->synchronize();
  const Voxel extents = windows_.window();
  const std::int64_t pixels = extents[0] * extents[1] * extents[2];
  for (std::int64_t row = 0; row < logits.shape[0] / pixels && next_ < own.size(); ++row) {
    add(own[next_++], logits_.data() + row * pixels * logits.shape.back(), logits.shape.back());
    if (next_ == own.size() || own[next_].sample != sample_) end();
  }
}

void Stitcher::begin(std::int64_t sample) {
  sample_ = sample;
  extents_ = windows_.whole().extents_of(sample);
  const auto pixels = static_cast<std::size_t>(extents_[0] * extents_[1] * extents_[2]);
  sums_.assign(pixels * static_cast<std::size_t>(head_.classes), 0.0F);
  weights_.assign(pixels, 0.0F);
}

void Stitcher::add(const SampleWindow& window, const float* logits, std::int64_t stride) {
  if (window.sample != sample_) begin(window.sample);
  const auto [depth, rows, columns] = windows_.window();
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t h = 0; h < rows; ++h) {
      const float outer =
          gauss_[0][static_cast<std::size_t>(d)] * gauss_[1][static_cast<std::size_t>(h)];
      const std::int64_t first =
          ((window.origin[0] + d) * extents_[1] + window.origin[1] + h) * extents_[2] +
          window.origin[2];
      for (std::int64_t w = 0; w < columns; ++w) {
        const float weight = outer * gauss_[2][static_cast<std::size_t>(w)];
        float* const to = sums_.data() + (first + w) * head_.classes;
        for (std::int64_t c = 0; c < head_.classes; ++c)
          to[c] += weight * logits[c];
        logits += stride;
        weights_[static_cast<std::size_t>(first + w)] += weight;
      }
    }
  }
}

void Stitcher::end() {
  const auto pixels = static_cast<std::int64_t>(weights_.size());
  for (std::int64_t i = 0; i < pixels; ++i) {
    for (std::int64_t c = 0; c < head_.classes; ++c)
      sums_[static_cast<std::size_t>(i * head_.classes + c)] /=
          weights_[static_cast<std::size_t>(i)];
  }
  targets_.resize(weights_.size());
  windows_.whole().read_targets(sample_, targets_);
  losses_.resize(weights_.size());
  correct_.resize(weights_.size());
  float overlaps[2] = {};
  const float weight = windows_.whole().weight(sample_);
  ops::CrossEntropyOptions options{{}, head_.classes, /*write_gradient=*/false};
  options.weights = &weight;
  options.rows_per_weight = pixels;
  if (!head_.class_weights.empty()) options.class_weights = head_.class_weights.data();
  const Tensor logits = view(sums_, DType::f32, {pixels, head_.classes});
  const Tensor targets = view(targets_, DType::i32, Shape{pixels});
  (dice_ ? &ops::dice_cross_entropy : &ops::cross_entropy)(
      *stream_, view(losses_, DType::f32, Shape{pixels}), view(correct_, DType::f32, Shape{pixels}),
      logits, targets, options);
  ops::mean_iou(*stream_, {reinterpret_cast<std::byte*>(overlaps), DType::f32, Shape{2, 1}}, logits,
                targets, head_.classes);
  stream_->synchronize();
  const auto counted = static_cast<double>(
      std::ranges::count_if(targets_, [](std::int32_t target) { return target >= 0; }));
  const double divisor = std::max(counted, 1.0);
  rows_.push_back({static_cast<double>(sample_), sum_of(losses_) / divisor,
                   sum_of(correct_) / divisor, static_cast<double>(overlaps[0]) / divisor,
                   static_cast<double>(overlaps[1]) / divisor, counted});
  sample_ = -1;
}

std::vector<Stitcher::Row> Stitcher::finish() {
  TRIREME_EXPECTS(next_ == windows_.of_rank(rank_).size(), "{} windows were evaluated", next_);
  next_ = 0;
  return std::exchange(rows_, {});
}

EvaluationResult mean_of_samples(Communicator& world, std::span<const Stitcher::Row> rows,
                                 std::int64_t samples) {
  const auto bytes = std::as_bytes(rows);
  std::vector<Stitcher::Row> all(static_cast<std::size_t>(samples));
  for (const std::string& text :
       gather_texts(world, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    std::vector<Stitcher::Row> theirs(text.size() / sizeof(Stitcher::Row));
    std::memcpy(theirs.data(), text.data(), text.size());
    for (const Stitcher::Row& row : theirs)
      all[static_cast<std::size_t>(row.sample)] = row;
  }
  EvaluationResult result;
  double counted = 0;
  for (const Stitcher::Row& row : all) {
    if (row.targets == 0) continue;
    counted += 1;
    result.loss += row.loss;
    result.correct += row.accuracy;
    result.second += row.mean_iou;
    result.third += row.mean_dice;
    result.targets += row.targets;
  }
  for (double* const sum : {&result.loss, &result.correct, &result.second, &result.third})
    *sum /= std::max(counted, 1.0);
  result.parts = {{"", result.loss, result.correct, result.second, result.third, result.targets}};
  return result;
}

}  // namespace trireme
