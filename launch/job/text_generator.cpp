// SPDX-License-Identifier: Apache-2.0
#include "launch/job/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise.h"

namespace trireme {

TextGenerator::TextGenerator(const Config& config, const SamplingOptions& sampling)
    : sampling_(sampling),
      context_(config.model.context),
      vocabulary_(config.model.vocabulary),
      device_(Device::create(DeviceType::cpu)),
      stream_(device_->make_stream(StreamKind::compute)),
      model_(make_model(*device_, config, /*micro_batch=*/1, /*training=*/false)) {
  const std::size_t token_bytes = static_cast<std::size_t>(context_) * sizeof(std::int32_t);
  const std::size_t row_bytes =
      static_cast<std::size_t>(model_->head().logits.shape.back()) * sizeof(float);
  inputs_ = Buffer(*device_, token_bytes, MemoryKind::device);
  inputs_host_ = Buffer(*device_, token_bytes, MemoryKind::host);
  targets_ = Buffer(*device_, token_bytes, MemoryKind::device);
  row_ = Buffer(*device_, row_bytes, MemoryKind::device);
  row_host_ = Buffer(*device_, row_bytes, MemoryKind::host);
  device_->fill_zero(*stream_, targets_.data(), token_bytes);
}

void TextGenerator::feed(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_) {
      fail(ExitCode::config, "token id {} lies outside the model's vocabulary [0, {})", token,
           vocabulary_);
    }
    text_.push_back(token);
  }
}

std::span<const float> TextGenerator::next_logits() {
  TRIREME_EXPECTS(!text_.empty(), "a text to continue");
  const auto window = std::min<std::size_t>(text_.size(), static_cast<std::size_t>(context_));
  // Behind the window stands padding that causal attention never looks at.
  auto* const host = reinterpret_cast<std::int32_t*>(inputs_host_.data());
  std::fill_n(host, context_, 0);
  std::copy_n(text_.end() - static_cast<std::ptrdiff_t>(window), window, host);
  device_->copy(*stream_, inputs_.data(), host, inputs_.bytes());

  const Tensor tokens = inputs_.view(DType::i32, Shape{1, context_});
  const Batch batch{tokens, targets_.view(DType::i32, Shape{1, context_}), {}, {}};
  const Context context = model_->context(*stream_, batch, /*training=*/false);
  model_->forward(context);

  const Tensor logits = context(model_->head().logits);  // (context, padded vocabulary)
  const std::int64_t columns = logits.shape.back();
  const Tensor row = logits.range((static_cast<std::int64_t>(window) - 1) * columns, columns);
  const Tensor row_f32 = row_.view(DType::f32, Shape{columns});
  if (row.dtype == DType::f32) {
    device_->copy(*stream_, row_f32.data, row.data, row.bytes());
  } else {
    ops::cast(*stream_, row_f32, row);
  }
  device_->copy(*stream_, row_host_.data(), row_f32.data, row_f32.bytes());
  stream_->synchronize();
  return {reinterpret_cast<const float*>(row_host_.data()), static_cast<std::size_t>(vocabulary_)};
}

std::int32_t TextGenerator::draw(std::span<const float> logits) const {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  if (sampling_.temperature == 0) return order.front();
  if (sampling_.top_k > 0 && static_cast<std::size_t>(sampling_.top_k) < order.size()) {
    order.resize(static_cast<std::size_t>(sampling_.top_k));
  }
  const double top = static_cast<double>(logits[static_cast<std::size_t>(order.front())]);
  std::vector<double> weights(order.size());
  std::transform(order.begin(), order.end(), weights.begin(), [&](std::int32_t token) {
    return std::exp((static_cast<double>(logits[static_cast<std::size_t>(token)]) - top) /
                    sampling_.temperature);
  });
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto words = Philox::keyed(sampling_.seed, RandomPurpose::sample)(0, text_.size());
  double left = static_cast<double>(Philox::uniform(words[0])) * total;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();
}

std::int32_t TextGenerator::next() {
  const std::int32_t token = draw(next_logits());
  text_.push_back(token);
  return token;
}

}  // namespace trireme
