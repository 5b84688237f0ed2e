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

}  // namespace

Stitcher::Stitcher(const SlidingWindows& windows, Device& device, const HeadInfo& head, int rank,
                   const Config& config)
    : windows_(windows),
      device_(device),
      head_(head),
      rank_(rank),
      dice_(config.train.loss == LossChoice::dice_cross_entropy),
      absent_counts_(!config.telemetry.mllog.empty()),
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
  const float weight = windows_.whole().weight(sample_);
  ops::CrossEntropyOptions options{{}, head_.classes, /*write_gradient=*/false};
  options.weights = &weight;
  options.rows_per_weight = pixels;
  if (!head_.class_weights.empty()) options.class_weights = head_.class_weights.data();
  const Tensor logits = view(sums_, DType::f32, {pixels, head_.classes});
  const Tensor targets = view(targets_, DType::i32, Shape{pixels});
  const Tensor losses = view(losses_, DType::f32, Shape{pixels}),
               correct = view(correct_, DType::f32, Shape{pixels});
  (dice_ ? &ops::dice_cross_entropy : &ops::cross_entropy)(*stream_, losses, correct, logits,
                                                           targets, options);
  Row& row = rows_.emplace_back(Row{.sample = sample_});
  ops::mean_iou(
      *stream_,
      {reinterpret_cast<std::byte*>(row.sums.data()), DType::f32, Shape{ops::LossSums::count, 1}},
      losses, correct, logits, targets, {head_.classes, absent_counts_});
  stream_->synchronize();
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
  LossTotals::Values sums;
  for (const Stitcher::Row& row : all)
    sums.add(row.sums.data());
  const EvaluationPart means = means_of(sums);
  return {means, {means}};
}

}  // namespace trireme
