// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/text/scorer.h"

#include <algorithm>

#include "runtime/comm/host_stream.h"

namespace trireme {
namespace {

// Checks a text for a row of a micro-batch: the model's input and targets.
void check(const ScoredText& text, std::size_t index, std::int64_t context,
           std::int64_t vocabulary) {
  const auto count = std::ssize(text.tokens);
  const std::int64_t begin = std::max<std::int64_t>(count - context - 1, 0);
  if (text.first <= begin || text.first >= count)
    fail(ExitCode::config,
         "text {}: {} of {} tokens are scored, but the context of {} has no room for a token "
         "before them",
         index, count - text.first, count, context);
  for (const std::int32_t token : text.tokens) {
    if (token < 0 || token >= vocabulary)
      fail(ExitCode::config, "text {}: token id {} lies outside the model's vocabulary [0, {})",
           index, token, vocabulary);
  }
}

class Scoring final : public StageWork {
 public:
  explicit Scoring(Session& session)
      : session_(session),
        stream_(*session.streams.compute),
        shape_{session.config.train.micro_batch, session.traits().context} {
    Device& device = *session.device;
    const MemoryScope scope(MemoryRole::staging);
    const auto bytes = static_cast<std::size_t>(shape_.count()) * sizeof(std::int32_t);
    for (Buffer* const buffer : {&inputs_, &targets_})
      *buffer = Buffer(device, bytes, MemoryKind::device);
    for (Buffer* const buffer : {&inputs_host_, &targets_host_, &losses_host_, &correct_host_})
      *buffer = Buffer(device, bytes, MemoryKind::host);
    batch_ = {inputs_.view(DType::i32, shape_), targets_.view(DType::i32, shape_), {}, {}};
  }

  // Rows without a text, and unscored tokens, have no target.
  void stage(std::span<const ScoredText> texts) {
    auto* const inputs = reinterpret_cast<std::int32_t*>(inputs_host_.data());
    auto* const targets = reinterpret_cast<std::int32_t*>(targets_host_.data());
    std::fill_n(inputs, shape_.count(), 0);
    std::fill_n(targets, shape_.count(), ignored_target);
    const std::int64_t length = shape_[1];
    for (std::int64_t row = 0; row < std::ssize(texts); ++row) {
      const auto& [tokens, first] = texts[static_cast<std::size_t>(row)];
      const std::int64_t begin = std::max<std::int64_t>(std::ssize(tokens) - length - 1, 0);
      std::copy(tokens.begin() + begin, tokens.end() - 1, inputs + row * length);
      std::copy(tokens.begin() + first, tokens.end(), targets + row * length + first - 1 - begin);
    }
    Device& device = *session_.device;
    device.copy(stream_, inputs_.data(), inputs, inputs_.bytes());
    device.copy(stream_, targets_.data(), targets, targets_.bytes());
  }

  Context context(int chunk, int micro_batch) override {
    Context context =
        session_.model->context(stream_, batch_, /*training=*/false, chunk, micro_batch);
    context.tensor = &session_.tensor;
    context.experts = session_.experts;
    return context;
  }

  void compute(const Action& action) override {
    const Context here = context(action.chunk, action.micro_batch);
    session_.model->forward(here);
    if (here.losses.empty()) return;
    Device& device = *session_.device;
    device.copy(stream_, losses_host_.data(), here.losses.data, here.losses.bytes());
    device.copy(stream_, correct_host_.data(), here.correct.data, here.correct.bytes());
  }

  // Call it after synchronizing the stream.
  [[nodiscard]] TextScore score(std::int64_t row) const {
    const auto* const targets = reinterpret_cast<const std::int32_t*>(targets_host_.data());
    const auto* const losses = reinterpret_cast<const float*>(losses_host_.data());
    const auto* const correct = reinterpret_cast<const float*>(correct_host_.data());
    TextScore score{.greedy = true};
    for (std::int64_t i = row * shape_[1]; i < (row + 1) * shape_[1]; ++i) {
      if (targets[i] == ignored_target) continue;
      score.log_likelihood -= static_cast<double>(losses[i]);
      score.greedy = score.greedy && correct[i] == 1.0F;
    }
    return score;
  }

 private:
  Session& session_;
  Stream& stream_;
  Shape shape_;
  Buffer inputs_, targets_, inputs_host_, targets_host_, losses_host_, correct_host_;
  Batch batch_;
};

}  // namespace

std::vector<TextScore> score_texts(Session& session, std::span<const ScoredText> texts) {
  const ModelTraits& traits = session.traits();
  for (std::size_t i = 0; i < texts.size(); ++i)
    check(texts[i], i, traits.context, traits.vocabulary);
  Stream& stream = *session.streams.compute;
  PipelineRunner runner(*session.device, *session.model, session.mesh.pipeline(), stream,
                        session.pipeline);
  Scoring work(session);
  const ProcessMesh& mesh = session.mesh;
  const bool tells = session.model->has_head() && mesh.here().tensor == 0;
  const auto rows = static_cast<std::size_t>(session.config.train.micro_batch);
  std::vector<double> values(2 * texts.size(), 0.0);  // each set by one rank, zero on the others
  std::size_t batch = 0;
  for (std::size_t first = 0; first < texts.size(); first += rows, ++batch) {
    if (static_cast<int>(batch % static_cast<std::size_t>(mesh.shape().data)) != mesh.here().data)
      continue;
    const auto own = texts.subspan(first, std::min(rows, texts.size() - first));
    work.stage(own);
    runner.forward_only(0, work);
    stream.synchronize();
    runner.synchronize();
    for (std::size_t row = 0; tells && row < own.size(); ++row) {
      const TextScore score = work.score(static_cast<std::int64_t>(row));
      values[2 * (first + row)] = score.log_likelihood;
      values[2 * (first + row) + 1] = score.greedy ? 1.0 : 0.0;
    }
  }
  const Tensor all{reinterpret_cast<std::byte*>(values.data()), DType::f64,
                   Shape{std::ssize(values)}};
  const HostStream host;
  session.world->all_reduce(*host, all, all, ReduceOp::sum);
  std::vector<TextScore> scores;
  for (std::size_t i = 0; i < texts.size(); ++i)
    scores.push_back({values[2 * i], values[2 * i + 1] != 0});
  return scores;
}

}  // namespace trireme
