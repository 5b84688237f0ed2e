// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/text_generator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

constexpr std::int32_t not_finite = -1;  // instead of a token

// One forward pass of one sequence.
class Forward final : public StageWork {
 public:
  Forward(Session& session, const Batch& batch) : session_(session), batch_(batch) {}

  Context context(int chunk, int micro_batch) override {
    Context context = session_.model->context(*session_.streams.compute, batch_,
                                              /*training=*/false, chunk, micro_batch);
    context.tensor = &session_.tensor;
    return context;
  }
  void compute(const Action& action) override {
    session_.model->forward(context(action.chunk, action.micro_batch));
  }

 private:
  Session& session_;
  const Batch& batch_;
};

}  // namespace

TextGenerator::TextGenerator(Session& session, const SamplingOptions& sampling)
    : session_(session),
      sampling_(sampling),
      context_(traits_of(session.config.model).context),
      vocabulary_(traits_of(session.config.model).vocabulary),
      device_(*session.device),
      stream_(*session.streams.compute),
      runner_(device_, *session.model, session.mesh.pipeline(), stream_, session.pipeline) {
  const std::size_t token_bytes = static_cast<std::size_t>(context_) * sizeof(std::int32_t);
  inputs_ = Buffer(device_, token_bytes, MemoryKind::device);
  inputs_host_ = Buffer(device_, token_bytes, MemoryKind::host);
  targets_ = Buffer(device_, token_bytes, MemoryKind::device);
  device_.fill_zero(stream_, targets_.data(), token_bytes);
  if (!session.model->has_head()) return;
  // (blocks of all tensor ranks, classes of a block): the padded vocabulary in order.
  const TensorSplit& split = session.model->params().layout().split();
  const std::int64_t columns = session.model->head().logits.shape.back() * split.blocks;
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * sizeof(float);
  row_ = Buffer(device_, row_bytes, MemoryKind::device);
  row_host_ = Buffer(device_, row_bytes, MemoryKind::host);
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
  device_.copy(stream_, inputs_.data(), host, inputs_.bytes());

  const Tensor tokens = inputs_.view(DType::i32, Shape{1, context_});
  const Batch batch{tokens, targets_.view(DType::i32, Shape{1, context_}), {}, {}};
  Forward forward(session_, batch);
  runner_.forward_only(0, forward);
  if (!session_.model->has_head()) return {};
  return logits_at(forward.context(0, 0), static_cast<std::int64_t>(window) - 1);
}

// Each tensor rank has some blocks of the classes.
std::span<const float> TextGenerator::logits_at(const Context& context, std::int64_t position) {
  const TensorSplit& split = session_.model->params().layout().split();
  const Tensor logits = context(session_.model->head().logits);  // (local blocks, context, classes)
  const std::int64_t columns = logits.shape.back();
  const Tensor row = row_.view(DType::f32, Shape{split.blocks * columns});
  const Tensor own = row.range(split.first() * columns, split.local() * columns);
  for (std::int64_t block = 0; block < split.local(); ++block) {
    const Tensor from = logits.range((block * context_ + position) * columns, columns);
    const Tensor to = own.range(block * columns, columns);
    if (from.dtype == DType::f32) {
      device_.copy(stream_, to.data, from.data, from.bytes());
    } else {
      ops::cast(stream_, to, from);
    }
  }
  if (split.ranks > 1) session_.tensor.all_gather(stream_, own, row);
  device_.copy(stream_, row_host_.data(), row.data, row.bytes());
  stream_.synchronize();
  return {reinterpret_cast<const float*>(row_host_.data()), static_cast<std::size_t>(vocabulary_)};
}

std::int32_t TextGenerator::draw(std::span<const float> logits) const {
  if (!std::ranges::all_of(logits, [](float value) { return std::isfinite(value); }))
    return not_finite;
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

std::optional<std::int32_t> TextGenerator::next() {
  const std::span<const float> logits = next_logits();
  std::int32_t token = logits.empty() ? 0 : draw(logits);
  // The last stage tells the others.
  Communicator& pipeline = session_.mesh.pipeline();
  const Tensor told{reinterpret_cast<std::byte*>(&token), DType::i32, Shape{1}};
  pipeline.broadcast(*host_, told, pipeline.size() - 1);
  runner_.synchronize();
  if (token == not_finite) return {};
  text_.push_back(token);
  return token;
}

}  // namespace trireme
