// SPDX-License-Identifier: Apache-2.0
#include "tests/models/model_case.h"

#include <bit>
#include <numeric>
#include <random>

#include "runtime/base/philox.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"

namespace trireme::test {
namespace {

template <typename T>
Tensor fill(Buffer& buffer, Device& device, const Shape& shape, const std::vector<T>& values) {
  buffer = Buffer(device, values.size() * sizeof(T), MemoryKind::device);
  const Tensor tensor = buffer.view(dtype_of<T>, shape);
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

Bits bits_of(const Tensor& tensor) {
  const auto* const data = tensor.as<float>();
  Bits bits(static_cast<std::size_t>(tensor.count()));
  std::transform(data, data + tensor.count(), bits.begin(),
                 [](float value) { return std::bit_cast<std::uint32_t>(value); });
  return bits;
}

void append(Bits& to, const Tensor& tensor) {
  const Bits bits = bits_of(tensor);
  to.insert(to.end(), bits.begin(), bits.end());
}

std::vector<std::int32_t> tokens(std::int64_t count, std::int64_t limit, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (auto& value : values)
    value = static_cast<std::int32_t>(engine() % static_cast<unsigned>(limit));
  return values;
}

}  // namespace

TestModel::TestModel(const VitOptions& images)
    : options(transformer_options(images)), vit(images) {}

std::optional<TransformerOptions> small_head(std::string_view family) {
  const ValueLossChoice huber{.kind = ops::ValueLossKind::huber};
  if (family == "BertClasses") return with_head(small_bert, {HeadKind::classes, 5, {}});
  if (family == "BertTokens") return with_head(small_bert, {HeadKind::token_classes, 5, {}});
  if (family == "BertLabels") return with_head(small_bert, {HeadKind::labels, 5, {}});
  if (family == "LlamaClasses") return with_head(small_llama, {HeadKind::classes, 5, {}});
  if (family == "LlamaValues") return with_head(small_llama, {HeadKind::values, 3, huber});
  return {};
}

ModelCase::ModelCase(Device& device, Stream& compute, const TestModel& model,
                     const BuildOptions& build, const TensorGroup* group, bool separate_ties)
    : device_(device),
      compute_(compute),
      build_(build),
      group_(group),
      model_(device,
             model.vit ? vit_chain(*model.vit, {.crop_padding = 1, .flip = true, .seed = 3})
                       : transformer_chain(model.options),
             build, {}, {}, {.leaves = {.count = build.context.local()}}, separate_ties) {
  fill_parameters();
  std::vector<std::int64_t> ids(static_cast<std::size_t>(build.micro_batch));
  std::iota(ids.begin(), ids.end(), 70);
  batch_.sample_ids = fill(ids_, device, Shape{build.micro_batch}, ids);
  batch_.epochs = fill(epochs_, device, Shape{build.micro_batch}, ids);
  model.vit ? fill_images(*model.vit) : fill_text(model.options);
}

void ModelCase::fill_text(const TransformerOptions& options) {
  const Shape shape{build_.micro_batch, options.context};
  auto targets = tokens(shape.count(), options.vocabulary, 2);
  targets[1] = ignored_target;
  batch_.inputs = fill(inputs_, device_, shape, tokens(shape.count(), options.vocabulary, 1));
  batch_.targets = fill(targets_, device_, shape, targets);
  if (!options.head.is_language()) fill_targets(options);
}

// Texts of 7, 12 and 1 tokens; some targets do not count.
void ModelCase::fill_targets(const TransformerOptions& options) {
  const std::int64_t lengths[] = {7, options.context, 1};
  std::vector<std::int32_t> starts;
  for (std::int64_t row = 0; row < build_.micro_batch; ++row)
    for (std::int64_t t = 0; t < options.context; ++t)
      starts.push_back(static_cast<std::int32_t>(t < lengths[row % 3] ? 0 : lengths[row % 3]));
  batch_.document_starts = fill(starts_, device_, batch_.inputs.shape, starts);
  const TargetSpec spec = head_targets(options.head, options.context);
  const std::int64_t each = spec.shape.count();
  const Shape shape{build_.micro_batch, each};
  auto classes = tokens(shape.count(), spec.classes > 0 ? spec.classes : 9, 2);
  if (spec.kind != TargetKind::values) {
    classes[1] = ignored_target;
    for (std::size_t i = 0; each > 1 && i < classes.size(); ++i)
      if (starts[i] > 0) classes[i] = ignored_target;
    batch_.targets = fill(targets_, device_, shape, classes);
    return;
  }
  std::vector<float> values;
  for (const std::int32_t drawn : classes)
    values.push_back(spec.is_multi_label() ? static_cast<float>(drawn % 2)
                                           : 0.25F * static_cast<float>(drawn));
  values[1] = std::nanf("");
  batch_.targets = fill(targets_, device_, shape, values);
}

void ModelCase::fill_images(const VitOptions& options) {
  const Shape shape{build_.micro_batch, options.image_size, options.width_of_images(),
                    options.channels};
  std::vector<std::uint8_t> pixels;
  for (const std::int32_t value : tokens(shape.count(), 256, 1))
    pixels.push_back(static_cast<std::uint8_t>(value));
  auto labels = tokens(build_.micro_batch, options.classes, 2);
  labels[1] = ignored_target;
  batch_.inputs = fill(inputs_, device_, shape, pixels);
  batch_.targets = fill(targets_, device_, Shape{build_.micro_batch}, labels);
}

// Constants become draws around them, each element the same in every layout.
void ModelCase::fill_parameters() {
  ParamStore& params = model_.params();
  params.initialize(compute_, 11);
  for (int i = 0; i < static_cast<int>(params.layout().specs().size()); ++i) {
    const ParamSpec& spec = params.layout().spec({i});
    if (spec.init.kind != Init::Kind::constant) continue;
    for_each_run(spec, params.layout().split(spec), [&](auto stored, auto logical, auto count) {
      ops::fill_normal(compute_, params.master({i}).range(stored, count), 5,
                       stable_id(spec.name.data(), spec.name.size()), logical, spec.init.a, 0.3F);
    });
  }
  params.refresh_compute(compute_);
}

void ModelCase::separate(const std::vector<std::int64_t>& lengths, std::size_t counted) {
  const std::int64_t length = batch_.inputs.shape[1];
  std::vector<std::int32_t> starts;
  auto* const target = batch_.targets.as<std::int32_t>();
  for (std::int64_t row = 0; row < build_.micro_batch; ++row) {
    document_of_.clear();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto begin = static_cast<std::int32_t>(document_of_.size());
      starts.insert(starts.end(), static_cast<std::size_t>(lengths[i]), begin);
      document_of_.insert(document_of_.end(), static_cast<std::size_t>(lengths[i]), i);
    }
    for (std::int64_t t = 0; t < length; ++t) {
      const std::size_t at = static_cast<std::size_t>(t);
      const bool last = at + 1 < document_of_.size() && document_of_[at + 1] != document_of_[at];
      if (last || document_of_[at] != counted) target[row * length + t] = ignored_target;
    }
  }
  batch_.document_starts = fill(starts_, device_, batch_.inputs.shape, starts);
}

void ModelCase::change_other_tokens(std::size_t document, bool only_behind) {
  auto* const token = batch_.inputs.as<std::int32_t>();
  const auto vocabulary = static_cast<std::int32_t>(model_.head().classes);
  for (std::int64_t i = 0; i < batch_.inputs.count(); ++i) {
    const std::size_t of = document_of_[static_cast<std::size_t>(i % batch_.inputs.shape[1])];
    if (of > document || (of < document && !only_behind)) token[i] = (token[i] + 17) % vocabulary;
  }
}

Context ModelCase::context(std::uint64_t step) {
  Context context = model_.context(compute_, batch_, build_.training);
  context.tensor = context.experts = build_.context.cuts() ? nullptr : group_;
  context.context_group = group_;
  context.rng = fill<std::uint64_t>(rng_, device_, Shape{2}, {9, step});
  context.loss.gradient_scale = 0.01F;
  context.loss.label_smoothing = 0.1F;
  context.loss.z_loss = 0.01F;
  return context;
}

void ModelCase::append_by_position(ModelResult& result, const Context& context) const {
  const ContextSplit& split = build_.context;
  if (!split.cuts()) {
    append(result.losses, context.losses);
    append(result.correct, context.correct);
    return;
  }
  const auto first = result.losses.size();
  for (Bits* const all : {&result.losses, &result.correct})
    all->resize(first + static_cast<std::size_t>(batch_.targets.count()));
  for (int block = 0; block < model_.blocks(); ++block) {
    const Context here = model_.block(context, block);
    const Bits losses = bits_of(here.losses), correct = bits_of(here.correct);
    for (std::int64_t sample = 0; sample < build_.micro_batch; ++sample) {
      for (const ContextRun& run : split.runs(split.first() + block)) {
        const auto from = static_cast<std::ptrdiff_t>(sample * split.rows() + run.row);
        const auto to =
            static_cast<std::ptrdiff_t>(first) + sample * split.positions + run.position;
        std::copy_n(losses.begin() + from, run.rows, result.losses.begin() + to);
        std::copy_n(correct.begin() + from, run.rows, result.correct.begin() + to);
      }
    }
  }
}

// The gradients of this rank's blocks, then of ranks, as one tree.
void ModelCase::join_blocks() {
  const ParamStore& params = model_.params();
  const auto of = [&](int block) {
    return params.gradients_of(block).whole().range(0, params.layout().weight_elements());
  };
  for (int step = 1; step < model_.blocks(); step *= 2)
    for (int block = 0; block + step < model_.blocks(); block += 2 * step)
      ops::add_in_place(compute_, of(block), of(block + step));
  // With statistics, which blocks add to without order.
  if (build_.context.ranks > 1) group_->all_reduce(compute_, params.gradients().whole());
}

ModelResult ModelCase::run(int passes) {
  ModelResult result;
  CountingSink sink(model_.params());
  for (int block = 0; block < model_.blocks(); ++block)
    ops::fill_constant(compute_, model_.params().gradients_of(block).whole(), 0);
  for (int pass = 0; pass < passes; ++pass) {
    Context now = context(static_cast<std::uint64_t>(pass));
    now.gradients = &sink;
    model_.forward(now);
    append_by_position(result, now);
    model_.backward(now);
    if (build_.split_backward) model_.backward_weight(now);
  }
  join_blocks();
  for (int i = 0; i < static_cast<int>(model_.params().layout().specs().size()); ++i) {
    if (model_.params().trains({i}))
      result.gradients[model_.params().layout().spec({i}).name] =
          bits_of(model_.params().gradient({i}));
  }
  result.reports = sink.counts();
  for (const std::uint32_t bits : result.losses)
    result.loss += static_cast<double>(std::bit_cast<float>(bits));
  result.loss /= static_cast<double>(result.losses.size());
  result.activation_bytes = model_.activation_bytes();
  return result;
}

Bits part_of(const Bits& whole, const ParamSpec& spec, const TensorSplit& split) {
  if (!is_split(spec, split)) return whole;
  const auto block = static_cast<std::ptrdiff_t>(whole.size()) / split.blocks;
  return {whole.begin() + split.first() * block,
          whole.begin() + (split.first() + split.local()) * block};
}

}  // namespace trireme::test
