// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/comm/comm_label.h"
#include "runtime/device/range.h"
#include "runtime/device/work_log.h"
#include "runtime/ops/random/init.h"

namespace trireme {
namespace {

std::size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.count()) * size_of(dtype);
}

// All bits set is NaN in every float type. Regions of arenas are padded to whole f32.
void fill_nan(Stream& stream, std::byte* data, std::size_t bytes) {
  const auto count = static_cast<std::int64_t>(align_up(bytes, sizeof(float)) / sizeof(float));
  if (count > 0)
    ops::fill_constant(stream, {data, DType::f32, Shape{count}}, std::bit_cast<float>(~0U));
}

}  // namespace

Model::Model(Device& device, const Chain& chain, const BuildOptions& options,
             std::span<const ChunkSpan> chunks, std::span<const Handover> inputs,
             const StoreOptions& store, bool separate_ties)
    : device_(device),
      split_(options.context),
      params_(std::make_shared<ParamStore>(ParamSplits{options.tensor, options.experts.split},
                                           separate_ties)) {
  Blueprint blueprint(*params_, device.type(), options);
  build_chunks(blueprint, chain, chunks, inputs);
  StoreOptions complete = store;
  complete.compute = options.compute;
  complete.training = options.training;
  params_->allocate(device_, complete);
  const MemoryScope scope(MemoryRole::activations);
  own_cache_ = Arena(device_, blueprint.cache_layout());
  allocate(blueprint);
}

Model::Model(const Model& other, const Chain& chain, const BuildOptions& options,
             std::span<const ChunkSpan> chunks, std::span<const Handover> inputs)
    : device_(other.device_),
      params_(std::make_shared<ParamStore>(ParamSplits{options.tensor, options.experts.split},
                                           other.params_->layout().separates_ties())),
      shared_cache_(&other.cache()) {
  Blueprint blueprint(*params_, device_.type(), options);
  build_chunks(blueprint, chain, chunks, inputs);
  TRIREME_EXPECTS(std::ranges::equal(params_->layout().specs(), other.params_->layout().specs(), {},
                                     &ParamSpec::name, &ParamSpec::name) &&
                      blueprint.cache_layout().peak_bytes() == other.cache().bytes(),
                  "two models that share parameters and a cache have the same layers");
  params_ = other.params_;
  allocate(blueprint);
}

void Model::build_chunks(Blueprint& blueprint, const Chain& chain,
                         std::span<const ChunkSpan> chunks, std::span<const Handover> inputs) {
  const ChunkSpan whole{0, static_cast<int>(chain.size()), 1};
  if (chunks.empty()) chunks = {&whole, 1};
  for (std::size_t i = 0; i < chunks.size(); ++i)
    build(blueprint, chain, chunks[i], i < inputs.size() ? inputs[i] : Handover{});
  own_scratch_ = blueprint.scratch_layout().peak_bytes();
  split_backward_ = blueprint.options().split_backward;
  token_losses_ = blueprint.token_losses;
  if (blueprint.options().training) place_regions(blueprint);
  poisoned_ = environment_number("TRIREME_POISON_ACTIVATIONS", 0, 1).value_or(0) == 1;
  plan_cuts(blueprint.micro_batch());
}

void Model::build(Blueprint& blueprint, const Chain& chain, const ChunkSpan& span,
                  const Handover& input) {
  TRIREME_EXPECTS(span.first < span.last && span.last <= static_cast<int>(chain.size()),
                  "layers {} to {} of a chain of {}", span.first, span.last, chain.size());
  TRIREME_EXPECTS(span.first == 0 || input.output.rank() > 0,
                  "the chunk from layer {} has no input shape", span.first);
  const BuildOptions& options = blueprint.options();
  Chunk chunk;
  chunk.slots = span.slots;
  chunk.first_unit = params_->layout().unit_count();
  params_->open_chunk();
  chunk.kept_begin = blueprint.kept_layout().mark();
  const std::size_t skips_before = blueprint.skip_shapes().size();
  blueprint.begin_chunk(input.skips);
  chunk.received.assign(blueprint.open_skips().begin(), blueprint.open_skips().end());
  Shape shape = input.output;
  for (int i = span.first; i < span.last; ++i) {
    const ChainLayer& layer = chain[static_cast<std::size_t>(i)];
    params_->open_unit();
    const std::size_t keeps = blueprint.kept_layout().mark();
    chunk.layers.push_back(
        layer.declare(blueprint, shape, depth_of(chain, static_cast<std::size_t>(i))));
    const auto bytes = static_cast<std::int64_t>(blueprint.kept_layout().mark() - keeps);
    chunk.keeps.push_back({Activation::Space::kept, keeps, DType::u8, Shape{bytes}});
    chunk.recomputed.push_back(options.training && options.recompute == Recompute::full &&
                               layer.block);
    shape = chunk.layers.back()->output_shape();
  }
  if (span.first == 0) find_idle_layers(chunk);
  if (const HeadInfo* const head = chunk.layers.back()->head(); head != nullptr) {
    head_ = head;
    losses_ = blueprint.keep(Shape{head->targets}, DType::f32);
    correct_ = blueprint.keep(Shape{head->targets}, DType::f32);
  }
  if (split_.cuts()) {
    const Shape rows{options.micro_batch, split_.rows()};
    if (span.first == 0) chunk.cut.inputs = blueprint.keep(rows, DType::i32);
    if (chunk.layers.back()->head() != nullptr)
      chunk.cut.targets = blueprint.keep(rows, DType::i32);
    if (options.separate_documents) chunk.cut.document_starts = blueprint.keep(rows, DType::i32);
  }
  chunk.sent.assign(blueprint.open_skips().begin(), blueprint.open_skips().end());
  lay_out_boundaries(blueprint, chunk, input.output);
  lay_out_skips(blueprint, chunk, skips_before);
  chunk.kept_bytes = blueprint.kept_layout().mark() - chunk.kept_begin;
  chunks_.push_back(std::move(chunk));
}

void Model::find_idle_layers(Chunk& chunk) const {
  const ParamLayout& layout = params_->layout();
  const auto unit_of = [&](int i) {
    return static_cast<std::size_t>(layout.unit_of({i}) - chunk.first_unit);
  };
  const auto specs = layout.specs();
  chunk.idle = chunk.layers.size();
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const bool here = layout.unit_of({i}) >= chunk.first_unit;
    if (here && specs[static_cast<std::size_t>(i)].kind == ParamKind::weight)
      chunk.idle = std::min(chunk.idle, unit_of(i));
  }
  for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
    const bool here = layout.unit_of({i}) >= chunk.first_unit;
    if (here && specs[static_cast<std::size_t>(i)].kind == ParamKind::statistic &&
        unit_of(i) < chunk.idle)
      chunk.idle_statistics.push_back({i});
  }
}

// True if the gradient of boundary i becomes the chunk's input gradient in place.
bool Model::reaches_input(const Chunk& chunk, std::size_t i) {
  if (!chunk.boundaries[0].exists) return false;
  return std::all_of(chunk.layers.begin(), chunk.layers.begin() + static_cast<std::ptrdiff_t>(i),
                     [](const auto& layer) { return layer->backward_in_place(); });
}

// The gradients at the ends of a chunk are kept, because messages come and go while other
// micro-batches compute. Inside they alternate between two scratch regions, as a layer needs at
// most the gradients on its two sides. A layer that works in place keeps its region.
void Model::lay_out_boundaries(Blueprint& blueprint, Chunk& chunk, const Shape& input) {
  const std::size_t count = chunk.layers.size();
  chunk.boundaries.resize(count + 1);
  for (std::size_t i = 0; i <= count; ++i) {
    const Shape& shape = i == 0 ? input : chunk.layers[i - 1]->output_shape();
    chunk.boundaries[i].exists = shape.rank() > 0;
    if (shape.rank() == 0) continue;
    if (i > 0 && i < count) {
      chunk.boundaries[i].value = blueprint.keep(shape);
      continue;
    }
    Message& message = i == 0 ? chunk.input : chunk.output;
    message = keep_message(blueprint, shape, i == 0 ? chunk.received : chunk.sent);
    chunk.boundaries[i].value = message.parts.front();
  }
  if (!blueprint.options().training) return;
  int turn = 0;
  for (std::size_t i = count + 1; i-- > 0;) {
    Boundary& boundary = chunk.boundaries[i];
    if (!boundary.exists) continue;
    if (i < count && chunk.boundaries[i + 1].exists && chunk.layers[i]->backward_in_place()) {
      boundary.gradient = chunk.boundaries[i + 1].gradient;
      boundary.region = chunk.boundaries[i + 1].region;
      boundary.gradient.shape = boundary.value.shape;
    } else if (i == count || reaches_input(chunk, i)) {
      Message& message = i == count ? chunk.output_gradient : chunk.input_gradient;
      const Shape& shape = i == 0 ? input : chunk.layers[i - 1]->output_shape();
      message = keep_message(blueprint, shape, i == count ? chunk.sent : chunk.received);
      boundary.gradient = message.parts.front();
    } else {
      boundary.gradient = boundary.value;
      boundary.gradient.space = Activation::Space::scratch;
      boundary.region = turn;
      turn = 1 - turn;
    }
  }
}

Model::Message Model::keep_message(Blueprint& blueprint, const Shape& own,
                                   std::span<const OpenSkip> skips) {
  if (skips.empty()) {
    const Activation whole = blueprint.keep(own);
    return {whole, {whole}};
  }
  const auto held = [&](const Shape& shape) { return blueprint.spatial().held(shape); };
  std::int64_t count = padded_in_message(held(own));
  for (const OpenSkip& open : skips)
    count += padded_in_message(held(open.skip.shape));
  Message message{.whole = blueprint.keep(Shape{count})};
  std::size_t offset = message.whole.offset;
  const auto place = [&](const Shape& shape) {
    message.parts.push_back({Activation::Space::kept, offset, message.whole.dtype, shape});
    offset += static_cast<std::size_t>(padded_in_message(shape)) * size_of(message.whole.dtype);
  };
  place(held(own));
  for (const OpenSkip& open : skips)
    place(held(open.skip.shape));
  return message;
}

// The two regions follow the layers' scratch and are shared by all chunks, since only one runs at a
// time.
void Model::place_regions(Blueprint& blueprint) {
  std::size_t widest = 0;
  for (const Chunk& chunk : chunks_) {
    for (const Boundary& boundary : chunk.boundaries) {
      if (boundary.region >= 0)
        widest = std::max(widest, bytes_of(boundary.gradient.shape, blueprint.compute()));
    }
  }
  const auto reserve = [&](std::size_t bytes) {
    return blueprint.scratch(Shape{static_cast<std::int64_t>(bytes)}, DType::u8).offset;
  };
  reserve(own_scratch_);
  const std::array<std::size_t, 2> offsets{reserve(widest), reserve(widest)};
  for (Chunk& chunk : chunks_) {
    for (Boundary& boundary : chunk.boundaries) {
      if (boundary.region >= 0)
        boundary.gradient.offset = offsets[static_cast<std::size_t>(boundary.region)];
    }
  }
  const std::size_t skips = reserve(skip_scratch_.peak_bytes());
  for (SkipPlace& skip : skips_)
    if (skip.gradient.space == Activation::Space::scratch) skip.gradient.offset += skips;
}

void Model::allocate(const Blueprint& blueprint) {
  Layout kept;
  for (Chunk& chunk : chunks_) {
    chunk.kept_base =
        kept.reserve(chunk.kept_bytes * static_cast<std::size_t>(chunk.slots * blocks()));
  }
  const MemoryScope scope(MemoryRole::activations);
  kept_ = Arena(device_, kept);
  block_scratch_ = align_up(blueprint.scratch_layout().peak_bytes(), arena_alignment);
  Layout scratch;
  shared_base_ = block_scratch_ * static_cast<std::size_t>(blocks());
  scratch.reserve(shared_base_ + blueprint.shared_layout().peak_bytes());
  scratch_ = Arena(device_, scratch);
  workspace_ = Arena(device_, blueprint.workspace_layout());
  host_ = Arena(device_, blueprint.host_layout(), MemoryKind::host);
}

Context Model::context(Stream& stream, const Batch& batch, bool training, int chunk,
                       int slot) const {
  const Chunk& part = at(chunk);
  Context context{stream, *params_, kept_, scratch_, workspace_, batch};
  context.chunk = chunk;
  context.kept_shift = static_cast<std::ptrdiff_t>(
      part.kept_base + static_cast<std::size_t>(slot % part.slots * blocks()) * part.kept_bytes);
  context.kept_shift -= static_cast<std::ptrdiff_t>(part.kept_begin);
  context.shared_shift = static_cast<std::ptrdiff_t>(shared_base_);
  context.training = training;
  context.cache = &cache();
  context.host = &host_;
  context.skips = skips_;
  if (part.layers.back()->head() != nullptr) {
    context.losses = context(losses_);
    context.correct = context(correct_);
  }
  return context;
}

template <typename Work>
void Model::each_block(const Context& context, int parts, Work&& work) {
  if (!split_.cuts()) return work(context);
  for (int part = 0; part < parts; ++part) {
    for (int b = 0; b < blocks(); ++b) {
      Context here = block(context, b);
      here.part = part;
      // What a parameter's last block adds completes its gradient.
      if (b + 1 < blocks()) here.gradients = nullptr;
      params_->select_block(b);
      work(here);
    }
  }
  params_->select_block(0);
}

void Model::poison(const Context& context, std::size_t i, LayerPass pass) const {
  const Chunk& chunk = at(context.chunk);
  const Boundary &in = chunk.boundaries[i], &out = chunk.boundaries[i + 1];
  fill_nan(context.stream, scratch_.buffer().data() + context.scratch_shift, own_scratch_);
  fill_nan(context.stream, scratch_.buffer().data() + shared_base_,
           scratch_.bytes() - shared_base_);
  fill_nan(context.stream, workspace_.buffer().data(), workspace_.bytes());
  const auto fill = [&](const Activation& activation) {
    const Tensor tensor = context(activation);
    fill_nan(context.stream, tensor.data, tensor.bytes());
  };
  if (pass == LayerPass::forward) fill(chunk.keeps[i]);
  if (pass == LayerPass::forward && out.exists) fill(out.value);
  const bool in_place = out.exists && chunk.layers[i]->backward_in_place();
  if (pass == LayerPass::backward && in.exists && !in_place) fill(in.gradient);
}

template <typename Work>
void Model::run(const Context& context, std::size_t i, LayerPass pass, Work&& work) {
  const Chunk& chunk = at(context.chunk);
  const ScopedCommLabel label(chunk.layers[i]->name());
  const Range range(chunk.layers[i]->name());
  const auto pass_of_layer = [&](const Context& here) {
    for (int b = 0; poisoned_ && b < blocks(); ++b)
      poison(block(here, b), i, pass);
    work(here);
  };
  if (graphs_ == nullptr || !context.training) return pass_of_layer(context);
  const int unit = chunk.first_unit + static_cast<int>(i);
  graphs_->run(context, unit, pass, pass_of_layer);
}

void Model::forward(const Context& context) {
  const Chunk& chunk = at(context.chunk);
  const std::size_t count = chunk.layers.size();
  cut_batch(context);
  pass_skips(context, LayerPass::forward);
  for (std::size_t i = 0; i < count; ++i) {
    const int unit = chunk.first_unit + static_cast<int>(i);
    if (hook_ != nullptr) hook_->before_forward(unit, i + 1 < count ? unit + 1 : -1);
    const Boundary &in = chunk.boundaries[i], &out = chunk.boundaries[i + 1];
    Layer& layer = *chunk.layers[i];
    run(context, i, LayerPass::forward, [&](const Context& whole) {
      each_block(whole, layer.forward_parts(), [&](const Context& here) {
        layer.forward(here, in.exists ? here(in.value) : here.batch.inputs,
                      out.exists ? here(out.value) : Tensor{});
      });
    });
    for (int b = 0; hook_ != nullptr && b < blocks(); ++b) {
      const Context here = block(context, b);
      hook_->after_forward(here, static_cast<int>(i), layer,
                           out.exists ? here(out.value) : Tensor{});
    }
  }
}

void Model::backward(const Context& context) {
  const Chunk& chunk = at(context.chunk);
  pass_skips(context, LayerPass::backward);
  for (std::size_t i = chunk.layers.size(); i-- > chunk.idle;) {
    const int unit = chunk.first_unit + static_cast<int>(i);
    if (hook_ != nullptr) hook_->before_backward(unit, i > chunk.idle ? unit - 1 : -1);
    const Boundary &in = chunk.boundaries[i], &out = chunk.boundaries[i + 1];
    Layer& layer = *chunk.layers[i];
    const auto x = [&](const Context& here) {
      return in.exists ? here(in.value) : here.batch.inputs;
    };
    const auto y = [&](const Context& here) { return out.exists ? here(out.value) : Tensor{}; };
    run(context, i, LayerPass::backward, [&](const Context& whole) {
      if (chunk.recomputed[i]) {
        Context again = whole;
        again.recomputing = true;
        const RepeatedWork repeated;
        each_block(again, layer.forward_parts(),
                   [&](const Context& here) { layer.forward(here, x(here), y(here)); });
      }
      each_block(whole, layer.backward_parts(), [&](const Context& here) {
        layer.backward(here, x(here), y(here), out.exists ? here(out.gradient) : Tensor{},
                       in.exists ? here(in.gradient) : Tensor{});
      });
    });
    for (int b = 0; hook_ != nullptr && b < blocks(); ++b) {
      const Context here = block(context, b);
      hook_->after_backward(here, static_cast<int>(i), layer,
                            in.exists ? here(in.gradient) : Tensor{});
    }
  }
  if (!split_backward_) report_idle(context);
}

void Model::report_idle(const Context& context) const {
  for (const ParamId id : at(context.chunk).idle_statistics)
    context.ready(id);
}

void Model::backward_weight(const Context& context) {
  const Chunk& chunk = at(context.chunk);
  for (std::size_t i = chunk.layers.size(); i-- > chunk.idle;) {
    const int unit = chunk.first_unit + static_cast<int>(i);
    if (hook_ != nullptr) hook_->before_backward(unit, i > chunk.idle ? unit - 1 : -1);
    const Boundary& in = chunk.boundaries[i];
    run(context, i, LayerPass::backward_weight, [&](const Context& whole) {
      each_block(whole, 1, [&](const Context& here) {
        chunk.layers[i]->backward_weight(here, in.exists ? here(in.value) : here.batch.inputs);
      });
    });
  }
  report_idle(context);
}

void Model::forget(Stream& stream) const {
  if (poisoned_) fill_nan(stream, cache().buffer().data(), cache().bytes());
}

Tensor Model::input(const Context& context) const {
  const Chunk& chunk = at(context.chunk);
  return chunk.boundaries.front().exists ? context(chunk.input.whole) : Tensor{};
}

Tensor Model::output(const Context& context) const {
  const Chunk& chunk = at(context.chunk);
  return chunk.boundaries.back().exists ? context(chunk.output.whole) : Tensor{};
}

Tensor Model::output_of(const Context& context, std::size_t i) const {
  const Boundary& boundary = at(context.chunk).boundaries[i + 1];
  return boundary.exists ? context(boundary.value) : Tensor{};
}

Tensor Model::input_gradient(const Context& context) const {
  const Chunk& chunk = at(context.chunk);
  return chunk.boundaries.front().exists ? context(chunk.input_gradient.whole) : Tensor{};
}

Tensor Model::output_gradient(const Context& context) const {
  const Chunk& chunk = at(context.chunk);
  return chunk.boundaries.back().exists ? context(chunk.output_gradient.whole) : Tensor{};
}

const HeadInfo& Model::head() const {
  TRIREME_EXPECTS(head_ != nullptr, "this rank does not hold the model's head");
  return *head_;
}

UnitRange Model::units(int chunk) const {
  const Chunk& part = at(chunk);
  return {part.first_unit, part.first_unit + static_cast<int>(part.layers.size())};
}

}  // namespace trireme
