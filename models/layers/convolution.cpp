// SPDX-License-Identifier: Apache-2.0
#include "models/layers/convolution.h"

#include <cmath>
#include <vector>

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {
namespace {

// A number along every axis, or along that of signals, and `rest` along the other.
ops::PerAxis along_signal(const FilterOptions& filter, std::int64_t number, std::int64_t rest) {
  return filter.signals ? ops::PerAxis(rest, number) : ops::PerAxis(number);
}

}  // namespace

Convolution::Convolution(Blueprint& blueprint, std::string_view name, const Shape& input,
                         std::int64_t outputs, std::int64_t window, std::int64_t stride,
                         const FilterOptions& filter)
    : options_{.stride = along_signal(filter, stride, 1),
               .padding = along_signal(filter, window / 2 * filter.dilation, 0),
               .dilation = filter.dilation,
               .groups = filter.groups} {
  const auto scope = blueprint.scope(name);
  std::vector<std::int64_t> extents(input.rank(), window);
  extents.front() = outputs;
  if (filter.signals) extents[1] = 1;
  extents.back() = input.back() / filter.groups;
  const Shape shape(extents);
  const auto fan_out = static_cast<double>(shape.count() / extents.back());
  const Init he = Init::normal(static_cast<float>(std::sqrt(2.0 / fan_out)));
  weight_ = blueprint.parameter({.name = "weight",
                                 .shape = shape,
                                 .init = filter.init.value_or(he),
                                 .decay = filter.decay,
                                 .matrix = true,
                                 .hidden = filter.groups == 1});
  if (filter.bias)
    bias_ = blueprint.parameter({.name = "bias", .shape = {outputs}, .init = *filter.bias});
  output_ = ops::convolution_output_shape(input, shape, options_);
  windows_.emplace(blueprint, input, output_,
                   Windows{.window = along_signal(filter, window, 1),
                           .stride = options_.stride,
                           .padding = options_.padding,
                           .dilation = filter.dilation},
                   blueprint.compute(), blueprint.options().training);
  weight_sum_.emplace(blueprint, shape, windows_->y().cut());
  if (filter.bias) bias_sum_.emplace(blueprint, Shape{outputs}, windows_->y().cut());
  workspace_ = convolution_workspace(blueprint, *windows_, shape, options_);
}

void Convolution::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  windows_->each_y(context, y, x, true,
                   [&](const Tensor& to, const Tensor& from, const ops::PerAxis& padding, auto) {
                     ops::convolution_forward(context.stream, to, from,
                                              context.params.compute(weight_),
                                              with_padding(options_, padding), context(workspace_));
                   });
  if (bias_.index >= 0) ops::add_bias_residual(context.stream, y, y, context.params.compute(bias_));
}

void Convolution::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                           const Tensor& x, const Tensor& addend) const {
  const bool bias = bias_sum_ && context.params.trains(bias_);
  const bool weight = context.params.trains(weight_);
  if (bias) bias_sum_->start_columns(context, bias_, windows_->y(), dy);
  if (weight) start_weight(context, dy, x);
  if (!dx.empty()) {
    const Slabs& slabs = windows_->x();
    windows_->each_x(
        context, dx, dy,
        [&](const Tensor& to, const Tensor& above, const ops::PerAxis& padding, std::size_t i) {
          ops::convolution_backward_input(
              context.stream, to, above, context.params.compute(weight_),
              with_padding(options_, padding), context(workspace_),
              addend.empty() ? addend : slabs.of(addend, slabs.local()[i]));
        });
  }
  if (bias) bias_sum_->finish(context, bias_);
  if (weight) weight_sum_->finish(context, weight_);
}

void Convolution::start_weight(const Context& context, const Tensor& dy, const Tensor& x) const {
  weight_sum_->begin(context);
  windows_->each_y(
      context, dy, x, false,
      [&](const Tensor& above, const Tensor& from, const ops::PerAxis& padding, std::size_t i) {
        ops::convolution_backward_weight(context.stream, weight_sum_->part(context, weight_, i),
                                         above, from, with_padding(options_, padding),
                                         context(workspace_));
      });
  weight_sum_->start(context, weight_);
}

}  // namespace trireme
