// SPDX-License-Identifier: Apache-2.0
#include "models/layers/sequence.h"

#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

Sequence& Sequence::append(Op op, const Shape& output) {
  if (!ops_.empty()) outputs_.push_back(blueprint_->keep(shape_));
  ops_.push_back(std::move(op));
  shape_ = output;
  return *this;
}

Sequence& Sequence::of_batch(std::int64_t height, std::int64_t width, std::int64_t channels) {
  shape_ = {blueprint_->micro_batch(), height, width, channels};
  input_.emplace(*blueprint_, shape_);
  return *this;
}

Sequence& Sequence::convolution(std::string_view name, std::int64_t outputs, std::int64_t window,
                                std::int64_t stride, const FilterOptions& filter) {
  Convolution op(*blueprint_, name, shape_, outputs, window, stride, filter);
  const Shape output = op.output_shape();
  return append(std::move(op), output);
}

Sequence& Sequence::transposed(std::string_view name, const Shape& output, std::int64_t window,
                               const TransposedOptions& options) {
  TransposedConvolution op(*blueprint_, name, shape_.back(), output, window, options);
  return append(std::move(op), output);
}

Sequence& Sequence::norm(std::string_view name, bool relu) {
  return append(BatchNorm(*blueprint_, name, shape_, relu), shape_);
}

Sequence& Sequence::relu() {
  return append(Relu{}, shape_);
}

Sequence& Sequence::with_skip(std::string_view name, std::string_view skip, std::int64_t outputs,
                              const FilterOptions& filter) {
  const auto scope = blueprint_->scope(name);
  const OpenSkip taken = blueprint_->take(skip);
  Convolution of_up(*blueprint_, "up", shape_, outputs, 3, 1, filter);
  Convolution of_skip(*blueprint_, "skip", taken.skip.shape, outputs, 3, 1, filter);
  const Shape sum = of_up.output_shape();
  return append(WithSkip{std::move(of_up), std::move(of_skip), taken.id, blueprint_->scratch(sum)},
                sum);
}

void Sequence::Relu::forward(const Context& context, const Tensor& y, const Tensor& x) {
  ops::relu_forward(context.stream, y, x);
}

void Sequence::Relu::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                              const Tensor& x) {
  ops::relu_backward(context.stream, dx, dy, x);  // x is positive where y is
}

void Sequence::WithSkip::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  of_up.forward(context, y, x);
  of_skip.forward(context, context(part), context.skip(skip));
  ops::add_in_place(context.stream, y, context(part));
}

void Sequence::WithSkip::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                                  const Tensor& x) const {
  of_skip.backward(context, context.skip_gradient(skip), dy, context.skip(skip));
  of_up.backward(context, dx, dy, x);
}

void Sequence::forward(const Context& context, const Tensor& y, const Tensor& x) const {
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const Tensor from = i > 0 ? context(outputs_[i - 1]) : input_ ? input_->forward(context, x) : x;
    const Tensor to = i < outputs_.size() ? context(outputs_[i]) : y;
    std::visit([&](const auto& op) { op.forward(context, to, from); }, ops_[i]);
  }
}

// A convolution's input gradient takes the input's place, that of other ops the output gradient's.
void Sequence::backward(const Context& context, const Tensor& dx, const Tensor& dy,
                        const Tensor& x) const {
  Tensor from = dy;
  for (std::size_t i = ops_.size(); i-- > 0;) {
    const Op& op = ops_[i];
    const Tensor input = i > 0 ? context(outputs_[i - 1]) : input_ ? input_->kept(context, x) : x;
    const bool keeps_place =
        std::holds_alternative<BatchNorm>(op) || std::holds_alternative<Relu>(op);
    const Tensor to = i == 0 ? dx : keeps_place ? from : input;
    std::visit([&](const auto& each) { each.backward(context, to, from, input); }, op);
    from = to;
  }
}

}  // namespace trireme
