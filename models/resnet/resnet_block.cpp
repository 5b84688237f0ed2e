// SPDX-License-Identifier: Apache-2.0
#include "models/resnet/resnet_block.h"

namespace trireme {
namespace {

Shape block_output(const Shape& input, const ResNetBlockOptions& options) {
  std::vector<std::int64_t> extents(input.extents().begin(), input.extents().end());
  for (std::size_t axis = 1; axis + 1 < extents.size(); ++axis)
    extents[axis] = (extents[axis] - 1) / options.stride + 1;
  extents.back() = options.outputs();
  return Shape(extents);
}

}  // namespace

ResNetBlock::Unit::Unit(Blueprint& blueprint, std::string_view name, const Shape& input,
                        std::int64_t outputs, std::int64_t window, std::int64_t stride, Place place)
    : convolution(blueprint, fmt::format("convolution{}", name), input, outputs, window, stride),
      norm(blueprint, fmt::format("norm{}", name), convolution.output_shape(),
           /*relu=*/place != Place::shortcut, place == Place::last ? 0.0F : 1.0F),
      convolved(blueprint.keep(convolution.output_shape())),
      gradient(blueprint.scratch(convolution.output_shape())) {
  if (place == Place::inner) normed = blueprint.keep(convolution.output_shape());
}

ResNetBlock::ResNetBlock(Blueprint& blueprint, std::string name, const ResNetBlockOptions& options)
    : Layer(std::move(name), block_output(blueprint.input(), options)) {
  const Shape& input = blueprint.input();
  const std::int64_t width = options.width, outputs = options.outputs();
  branch_.reserve(3);
  if (options.bottleneck) {
    branch_.emplace_back(blueprint, "1", input, width, 1, 1, Place::inner);
    branch_.emplace_back(blueprint, "2", branch_[0].convolution.output_shape(), width, 3,
                         options.stride, Place::inner);
    branch_.emplace_back(blueprint, "3", branch_[1].convolution.output_shape(), outputs, 1, 1,
                         Place::last);
  } else {
    branch_.emplace_back(blueprint, "1", input, width, 3, options.stride, Place::inner);
    branch_.emplace_back(blueprint, "2", branch_[0].convolution.output_shape(), outputs, 3, 1,
                         Place::last);
  }
  if (input == output_shape()) return;
  shortcut_.emplace(blueprint, "_shortcut", input, outputs, 1, options.stride, Place::shortcut);
  dx_branch_ = blueprint.scratch(input);
}

void ResNetBlock::forward(const Context& context, const Tensor& x, const Tensor& y) {
  ops::BatchNormSummand shortcut{.x = x};
  if (shortcut_) {
    const Tensor convolved = context(shortcut_->convolved);
    shortcut_->convolution.forward(context, convolved, x);
    shortcut = shortcut_->norm.as_summand(context, convolved);
  }
  Tensor at = x;
  for (const Unit& unit : branch_) {
    const Tensor convolved = context(unit.convolved);
    unit.convolution.forward(context, convolved, at);
    at = unit.normed ? context(*unit.normed) : y;
    unit.norm.forward(context, at, convolved, unit.normed ? ops::BatchNormSummand{} : shortcut);
  }
}

void ResNetBlock::backward(const Context& context, const Tensor& x, const Tensor& y,
                           const Tensor& dy, const Tensor& dx) {
  // dx is the sum of both summands' gradients: the last convolution adds the other one.
  const Tensor dx_branch = shortcut_ ? context(dx_branch_) : dx;
  Tensor gradient = dy;
  for (std::size_t i = branch_.size(); i-- > 0;) {
    const Unit& unit = branch_[i];
    const Tensor dconvolved = context(unit.gradient);
    // The last unit writes the gradient of both summands to dy.
    unit.norm.backward(context, dconvolved, gradient, context(unit.convolved),
                       unit.normed ? Tensor{} : y);
    const Tensor input = i > 0 ? context(*branch_[i - 1].normed) : x;
    const Tensor dinput = i > 0 ? context(branch_[i - 1].gradient) : dx_branch;
    unit.convolution.backward(context, dinput, dconvolved, input,
                              i == 0 && !shortcut_ ? dy : Tensor{});
    gradient = dinput;
  }
  if (!shortcut_) return;
  const Tensor dconvolved = context(shortcut_->gradient);
  shortcut_->norm.backward(context, dconvolved, dy, context(shortcut_->convolved));
  shortcut_->convolution.backward(context, dx, dconvolved, x, dx_branch);
}

}  // namespace trireme
