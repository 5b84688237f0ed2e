// SPDX-License-Identifier: Apache-2.0
#include "models/deepcam/layers.h"

#include <cmath>

#include "models/layers/blocks.h"
#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/random/init.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

Sequence branch_of(Blueprint& blueprint, const XceptionBlockOptions& options) {
  const std::int64_t inputs = blueprint.input().back();
  const bool changes = options.outputs != inputs;
  Sequence branch(blueprint, blueprint.input());
  for (int i = 1; i <= options.norms; ++i) {
    const bool last = i == options.norms;
    separable(branch, fmt::format("separable{}", i),
              options.grows_first || last ? options.outputs : inputs);
    if (!last || changes) branch.norm(fmt::format("norm{}", i), /*relu=*/!last);
  }
  if (changes) separable(branch, "separable_last", options.outputs, options.stride);
  return branch;
}

// Sample n of (B, ..., C) as rows (..., C).
Tensor sample_of(const Tensor& x, std::int64_t n) {
  return block_of(x, n, {x.shape.rows() / x.shape[0], x.shape.back()});
}

// vectors(B, C) f32: the sums of each sample's pixels in x; through `parts`, (slabs, B, C).
void sum_pixels(const Context& context, const SlabParts& parts, const Slabs& slabs,
                const Tensor& vectors, const Tensor& x) {
  for (std::size_t i = 0; i < slabs.local().size(); ++i) {
    const Tensor part = parts.own(context, i), slab = slabs.of(x, slabs.local()[i]);
    ops::fill_constant(context.stream, part, 0);
    for (std::int64_t n = 0; n < slab.shape[0]; ++n)
      ops::column_sums(context.stream, sample_of(part, n).reshaped({part.shape[1]}),
                       sample_of(slab, n));
  }
  ops::sum_blocks(context.stream, vectors, parts.gather(context));
}

// Adds vectors(B, C) f32 to each pixel of its sample.
void add_to_pixels(const Context& context, const Slabs& slabs, const Tensor& x,
                   const Tensor& vectors) {
  for (const Slabs::Slab& each : slabs.local()) {
    const Tensor slab = slabs.of(x, each);
    for (std::int64_t n = 0; n < slab.shape[0]; ++n) {
      const Tensor pixels = sample_of(slab, n);
      ops::add_bias_residual(context.stream, pixels, pixels,
                             sample_of(vectors, n).reshaped({vectors.shape[1]}));
    }
  }
}

}  // namespace

Init kaiming(std::int64_t fan_in) {
  return Init::normal(std::sqrt(2.0F / static_cast<float>(fan_in)));
}

Init uniform_over(std::int64_t fan_in) {
  return Init::uniform(1.0F / std::sqrt(static_cast<float>(fan_in)));
}

Sequence& separable(Sequence& to, const std::string& name, std::int64_t outputs,
                    std::int64_t stride, std::int64_t dilation) {
  const std::int64_t inputs = to.output_shape().back();
  to.convolution(name + ".depthwise", inputs, 3, stride,
                 {.init = kaiming(9), .dilation = dilation, .groups = inputs});
  return to.convolution(name + ".pointwise", outputs, 1, 1, {.init = kaiming(inputs)});
}

Sequence& doubling(Sequence& to, std::string_view name, const Shape& output) {
  const Init init = uniform_over(9 * output.back());
  return to.transposed(name, output, 3, {.stride = 2, .padding = 1, .init = init, .bias = false});
}

XceptionBlock::XceptionBlock(Blueprint& blueprint, const std::string& name,
                             const XceptionBlockOptions& options)
    : XceptionBlock(blueprint, name, options, branch_of(blueprint, options)) {}

XceptionBlock::XceptionBlock(Blueprint& blueprint, const std::string& name,
                             const XceptionBlockOptions& options, Sequence branch)
    : Layer(name, branch.output_shape()),
      relu_(options.relu),
      branch_(std::move(branch)),
      norm_(blueprint,
            options.outputs == blueprint.input().back() ? fmt::format("norm{}", options.norms)
                                                        : "norm_shortcut",
            output_shape(), options.relu),
      convolved_(blueprint.keep(output_shape())),
      part_(blueprint.scratch(output_shape())) {
  const Shape& x = blueprint.input();
  if (options.outputs != x.back()) {
    shortcut_.emplace(blueprint, "convolution_shortcut", x, options.outputs, 1, options.stride,
                      FilterOptions{.init = kaiming(x.back())});
    dx_branch_ = blueprint.scratch(x);
  }
  if (options.low_level == 0) return;
  low_level_.emplace(blueprint, output_shape());
  low_level_->convolution("low_level", options.low_level, 1, 1,
                          {.init = uniform_over(options.outputs)});
  low_level_->norm("low_level_norm");
  skip_ = blueprint.offer("low_level", low_level_->output_shape());
}

void XceptionBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor convolved = context(convolved_), part = context(part_);
  branch_.forward(context, shortcut_ ? part : convolved, x);
  if (shortcut_) shortcut_->forward(context, convolved, x);
  norm_.forward(context, y, convolved, {.x = shortcut_ ? part : x});
  if (low_level_) low_level_->forward(context, context.skip(*skip_), y);
}

void XceptionBlock::backward(const Context& context, const Tensor& x, const Tensor& y,
                             const Tensor& dy, const Tensor& dx) {
  const Tensor part = context(part_);
  if (low_level_) {
    low_level_->backward(context, part, context.skip_gradient(*skip_), y);
    ops::add_in_place(context.stream, dy, part);
  }
  // After this dy is the summand's gradient.
  norm_.backward(context, part, dy, context(convolved_), relu_ ? y : Tensor{});
  if (shortcut_) shortcut_->backward(context, dx, part, x);
  const Tensor dx_branch = shortcut_ ? context(*dx_branch_) : dx;
  branch_.backward(context, dx_branch, shortcut_ ? dy : part, x);
  ops::add_in_place(context.stream, dx, shortcut_ ? dx_branch : dy);
}

DeepCamPyramid::DeepCamPyramid(Blueprint& blueprint, const std::string& name, std::int64_t outputs)
    : Layer(name, {blueprint.input()[0], blueprint.input()[1], blueprint.input()[2], outputs}),
      of_average_(blueprint, {blueprint.input()[0], 1, 1, blueprint.input().back()}),
      norm_(blueprint, "norm", output_shape(), /*relu=*/true),
      inputs_(blueprint.spatial(), blueprint.input()),
      outputs_(blueprint.spatial(), output_shape()),
      share_(1 / static_cast<float>(blueprint.input()[1] * blueprint.input()[2])),
      sum_(blueprint.keep(output_shape())),
      average_(blueprint.keep(of_average_.output_shape())),
      part_(blueprint.scratch(output_shape())),
      dx_part_(blueprint.scratch(blueprint.input())) {
  const std::int64_t inputs = blueprint.input().back();
  const FilterOptions joined{.init = uniform_over(5 * outputs)};
  for (const std::int64_t dilation : {1, 6, 12, 18}) {
    const auto scope = blueprint.scope(fmt::format("branches.{}", branches_.size()));
    const std::int64_t window = dilation > 1 ? 3 : 1;
    Sequence& branch = branches_.emplace_back(blueprint, blueprint.input());
    branch.convolution("convolution", outputs, window, 1,
                       {.init = kaiming(window * window * inputs), .dilation = dilation});
    branch.norm("norm").convolution("projection", outputs, 1, 1, joined);
  }
  const auto scope = blueprint.scope("average");
  of_average_.convolution("convolution", outputs, 1, 1, {.init = uniform_over(inputs)});
  of_average_.convolution(
      "affine", outputs, 1, 1,
      {.init = Init::constant(1), .decay = false, .groups = outputs, .bias = Init::constant(0)});
  of_average_.relu().convolution("projection", outputs, 1, 1, joined);
  added_ = blueprint.scratch(of_average_.output_shape());
  const std::int64_t samples = blueprint.input()[0];
  vectors_ = blueprint.scratch(Shape{samples, outputs}, DType::f32);
  wide_vectors_ = blueprint.scratch(Shape{samples, inputs}, DType::f32);
  of_inputs_ = SlabParts(blueprint, inputs_, samples, inputs);
  if (blueprint.options().training) of_outputs_ = SlabParts(blueprint, outputs_, samples, outputs);
}

void DeepCamPyramid::forward(const Context& context, const Tensor& x, const Tensor& y) {
  const Tensor sum = context(sum_), part = context(part_), average = context(average_);
  const Tensor added = context(added_), vectors = context(vectors_);
  const Tensor wide = context(wide_vectors_);
  for (const Sequence& branch : branches_) {
    const bool first = &branch == branches_.data();
    branch.forward(context, first ? sum : part, x);
    if (!first) ops::add_in_place(context.stream, sum, part);
  }
  sum_pixels(context, of_inputs_, inputs_, wide, x);
  ops::scale_in_place(context.stream, wide, share_);
  ops::cast(context.stream, average, wide.reshaped(average.shape));
  of_average_.forward(context, added, average);
  ops::cast(context.stream, vectors.reshaped(added.shape), added);
  add_to_pixels(context, outputs_, sum, vectors);
  norm_.forward(context, y, sum);
}

void DeepCamPyramid::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                              const Tensor& dy, const Tensor& dx) {
  const Tensor dx_part = context(dx_part_), average = context(average_);
  const Tensor added = context(added_), vectors = context(vectors_);
  const Tensor wide = context(wide_vectors_);
  norm_.backward(context, dy, dy, context(sum_));
  sum_pixels(context, of_outputs_, outputs_, vectors, dy);
  ops::cast(context.stream, added, vectors.reshaped(added.shape));
  of_average_.backward(context, average, added, average);
  ops::cast(context.stream, wide.reshaped(average.shape), average);
  ops::scale_in_place(context.stream, wide, share_);
  for (const Sequence& branch : branches_) {
    const bool first = &branch == branches_.data();
    branch.backward(context, first ? dx : dx_part, dy, x);
    if (!first) ops::add_in_place(context.stream, dx, dx_part);
  }
  add_to_pixels(context, inputs_, dx, wide);
}

DeepCamHead::DeepCamHead(Blueprint& blueprint, const DeepCamOptions& options, bool dice)
    : Layer("head", Shape{}),
      last_(blueprint, blueprint.input()),
      loss_(blueprint, {options.image_size, options.width()}, options.classes,
            {options.class_weights.begin(), options.class_weights.end()}, dice) {
  doubling(last_, "classifier",
           {blueprint.input()[0], options.image_size, options.width(), options.classes});
  logits_ = blueprint.keep(last_.output_shape());
  axes_ = {{1, "the depth of an image"},
           {options.image_size, "model.image_size"},
           {options.width(), "model.image_width"}};
  info_ = loss_.head(logits_);
}

void DeepCamHead::forward(const Context& context, const Tensor& x, const Tensor& /*y*/) {
  last_.forward(context, context(logits_), x);
  loss_.forward(context, context(logits_));
}

void DeepCamHead::backward(const Context& context, const Tensor& x, const Tensor& /*y*/,
                           const Tensor& /*dy*/, const Tensor& dx) {
  last_.backward(context, dx, context(logits_), x);
}

}  // namespace trireme
