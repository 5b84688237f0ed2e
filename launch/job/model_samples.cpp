// SPDX-License-Identifier: Apache-2.0
#include "launch/job/model_samples.h"

#include <algorithm>
#include <cmath>

#include "data/sets/id_names.h"
#include "runtime/comm/watchdog/step_watch.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

constexpr std::int64_t most_shown = 8, longest_continuation = 48;

// The forward pass of an evaluation, one micro-batch.
class SampleWork final : public StageWork {
 public:
  SampleWork(Session& session, const Batch& batch) : session_(session), batch_(batch) {}
  Context context(int chunk, int micro_batch) override {
    Context context = session_.model->context(*session_.streams.compute, batch_,
                                              /*training=*/false, chunk, micro_batch);
    context.tensor = &session_.tensor;
    context.experts = session_.experts;
    return context;
  }
  void compute(const Action& action) override {
    session_.model->forward(context(action.chunk, action.micro_batch));
  }

 private:
  Session& session_;
  const Batch& batch_;
};

// Pixels of floats of unknown range, scaled from minimum to maximum.
std::vector<std::byte> bytes_of(const Tensor& picture) {
  const auto count = static_cast<std::size_t>(picture.count());
  if (picture.dtype != DType::f32) return {picture.data, picture.data + count};
  const std::span values(picture.as<float>(), count);
  const auto [low, high] = std::ranges::minmax(values);
  const float scale = high > low ? 255 / (high - low) : 0;
  std::vector<std::byte> bytes;
  for (const float value : values)
    bytes.push_back(static_cast<std::byte>(std::lround((value - low) * scale)));
  return bytes;
}

}  // namespace

SamplePass::SamplePass(Session& session, PipelineRunner& runner, const Dataset& data)
    : session_(session),
      runner_(runner),
      data_(data),
      rows_(session.config.train.micro_batch),
      shown_(std::min({rows_, most_shown, data.size()})),
      host_(*session.device, data.layout(), rows_, MemoryKind::host),
      device_(*session.device, data.layout(), rows_, MemoryKind::device) {
  const ModelTraits& traits = session.traits();
  if (session.world->rank() == 0 && traits.input == InputKind::tokens)
    words_.emplace(session.config.run.directory, "", traits.vocabulary);
  classes_ = data.id_names().classes;
  if (!session.model->has_head()) return;
  const Shape& logits = session.model->head().logits.shape;
  const std::int64_t all =
      rows_ * logits.back() * session.model->params().layout().splits().tensor.blocks;
  const auto bytes = static_cast<std::size_t>(all) * sizeof(float);
  logits_ = Buffer(*session.device, bytes, MemoryKind::device);
  logits_host_ = Buffer(*session.device, bytes, MemoryKind::host);
}

void SamplePass::read_samples() {
  const SampleLayout& layout = data_.layout();
  const std::size_t inputs = layout.input_bytes();
  const auto targets = static_cast<std::size_t>(layout.targets.count());
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto index = static_cast<std::size_t>(row);
    const std::int64_t sample = row % data_.size();
    data_.read(sample, {host_.batch.inputs.data + index * inputs, inputs},
               {host_.batch.targets.as<std::int32_t>() + index * targets, targets});
    host_.batch.sample_ids.as<std::int64_t>()[row] = sample;
    host_.batch.epochs.as<std::int64_t>()[row] = 0;
    if (layout.weighted) host_.batch.weights.as<float>()[row] = 1;
  }
  if (const Tensor& starts = host_.batch.document_starts; !starts.empty())
    std::fill_n(starts.as<std::int32_t>(), starts.count(), 0);  // one text per row
  const bool bound = bound_documents(host_.batch);
  TRIREME_EXPECTS(bound, "{} rows, but a batch has fewer documents", rows_);
}

void SamplePass::forward() {
  Stream& compute = *session_.streams.compute;
  session_.device->copy(compute, device_.buffer.data(), host_.buffer.data(), host_.buffer.bytes());
  SampleWork work(session_, device_.batch);
  runner_.forward_only(0, work);
}

// Each tensor rank has some blocks of the classes.
void SamplePass::fetch_logits(std::int64_t at) {
  Stream& compute = *session_.streams.compute;
  const Model& model = *session_.model;
  const TensorSplit& split = model.params().layout().splits().tensor;
  const Tensor from = SampleWork(session_, device_.batch)
                          .context(runner_.shape().chunks - 1, 0)(model.head().logits);
  const std::int64_t width = from.shape.back(), targets = model.head().targets,
                     blocks = from.count() / (targets * width), stride = targets / rows_;
  const Tensor all = logits_.view(DType::f32, Shape{blocks * split.ranks * rows_ * width});
  const Tensor own = all.range(all.count() / split.ranks * split.rank, all.count() / split.ranks);
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t place = block * targets + row * stride + std::min(at, stride - 1);
      const Tensor one = from.range(place * width, width);
      const Tensor to = own.range((block * rows_ + row) * width, width);
      if (from.dtype == DType::f32) {
        session_.device->copy(compute, to.data, one.data, one.bytes());
      } else {
        ops::cast(compute, to, one);
      }
    }
  }
  if (split.ranks > 1 && from.shape.rank() == 3) session_.tensor.all_gather(compute, own, all);
  session_.device->copy(compute, logits_host_.data(), all.data, all.bytes());
}

std::vector<std::int32_t> SamplePass::most_probable(std::int64_t at) {
  set_activity("waiting for samples of the model");
  std::vector<std::int32_t> found(static_cast<std::size_t>(rows_));
  const bool head = session_.model->has_head();
  if (head) fetch_logits(at);
  session_.streams.compute->synchronize();
  runner_.synchronize();
  if (head) {
    const std::int64_t width = session_.model->head().logits.shape.back(),
                       classes = session_.model->head().classes;
    const auto* const logits = reinterpret_cast<const float*>(logits_host_.data());
    for (std::int64_t row = 0; row < rows_; ++row) {
      const auto of = [&](std::int64_t one) {
        return logits[(one / width * rows_ + row) * width + one % width];
      };
      std::int64_t best = 0;
      for (std::int64_t one = 1; one < classes; ++one)
        if (of(one) > of(best)) best = one;
      found[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(best);
    }
  }
  const int last_stage = runner_.shape().stages - 1;
  const Tensor tensor{reinterpret_cast<std::byte*>(found.data()), DType::i32, Shape{rows_}};
  if (runner_.shape().stages > 1)
    session_.mesh.pipeline().broadcast(*host_stream_, tensor, last_stage);
  return found;
}

std::string SamplePass::text_of(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens)
    text += words_->known() ? words_->text_of(token) : fmt::format("{} ", token);
  return text;
}

// All texts at once, one per row. Tokens after the predicted position have no effect.
ModelSamples SamplePass::continued() {
  const std::int64_t context = data_.layout().inputs.count();
  const std::int64_t more = std::min(longest_continuation, context / 2), prompt = context - more;
  auto* const tokens = host_.batch.inputs.as<std::int32_t>();
  for (std::int64_t at = prompt; at < context; ++at) {
    forward();
    const std::vector<std::int32_t> next = most_probable(at - 1);
    for (std::int64_t row = 0; row < rows_; ++row)
      tokens[row * context + at] = next[static_cast<std::size_t>(row)];
  }
  ModelSamples samples;
  if (!words_) return samples;
  for (std::int64_t row = 0; row < shown_; ++row) {
    const std::span all(tokens + row * context, static_cast<std::size_t>(context));
    samples.texts.push_back(
        {.prompt = text_of(all.first(static_cast<std::size_t>(prompt))),
         .continuation = text_of(all.subspan(static_cast<std::size_t>(prompt)))});
  }
  return samples;
}

ModelSamples SamplePass::classified() {
  forward();
  const std::vector<std::int32_t> classes = most_probable(0);
  ModelSamples samples;
  const auto name_of_class = [&](std::int32_t number) {
    const auto place = static_cast<std::size_t>(number);
    return number >= 0 && place < classes_.size() ? classes_[place] : std::to_string(number);
  };
  const Shape& shape = host_.batch.inputs.shape;
  const bool shows = shape[3] == 1 || shape[3] == 3;
  for (std::int64_t row = 0; shows && session_.world->rank() == 0 && row < shown_; ++row) {
    const std::int64_t values = shape[1] * shape[2] * shape[3];
    samples.pictures.push_back(
        {.height = shape[1],
         .width = shape[2],
         .channels = shape[3],
         .pixels = bytes_of(host_.batch.inputs.range(row * values, values)),
         .label = name_of_class(host_.batch.targets.as<std::int32_t>()[row]),
         .predicted = name_of_class(classes[static_cast<std::size_t>(row)])});
  }
  return samples;
}

ModelSamples SamplePass::run() {
  read_samples();
  return session_.traits().input == InputKind::tokens ? continued() : classified();
}

}  // namespace trireme
