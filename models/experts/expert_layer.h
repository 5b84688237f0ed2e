// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/experts/expert_options.h"
#include "models/experts/router.h"
#include "models/experts/row_exchange.h"
#include "runtime/ops/experts/grouped_linear.h"

namespace trireme {

// The routed experts of a mixture: y = residual + sum over a token's slots of weight * expert(x),
// expert(x) = W2 act(W1 x + b1) + b2 with a gated activation. Each rank of the expert group has
// E / P experts; BuildOptions::experts. The gradient of a weight is not sent: the owner of an
// expert gets the gradient of the sum and the weight, and returns the product with its output.
class ExpertLayer {
 public:
  // Declares the router's parameters, "experts.expand.weight" (E, 2 F, C) and
  // "experts.contract.weight" (E, C, F), and optional biases.
  ExpertLayer(Blueprint& blueprint, const ExpertOptions& options, const RowSplit& rows, Init hidden,
              Init residual);

  // Routes normed, all rows, and starts to send this rank's. Work enqueued before activate()
  // overlaps that.
  void start(const Context& context, const Tensor& normed) const;
  void activate(const Context& context) const;
  // out, local rows, = residual + the experts' outputs. normed as in start().
  void project(const Context& context, const Tensor& out, const Tensor& residual,
               const Tensor& normed) const;
  // Recomputes what selective recomputation does not keep.
  void activate_again(const Context& context) const;
  // From the gradient of the output, all rows, adds to that of normed, local rows; or with
  // `accumulates` false writes it.
  void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                const Tensor& normed, bool accumulates) const;
  void backward_weight(const Context& context, const Tensor& gradient, const Tensor& normed) const;

  void add_limits(ModelLimits& limits) const;
  // Memory that is free outside of this layer's passes.
  [[nodiscard]] const Activation& spare() const { return dexpanded_; }

 private:
  struct Product {
    ParamId weight{}, bias{};
    Shape local{};  // (local experts, out, in)
  };
  // `parts`: as ParamSpec::expert_parts.
  [[nodiscard]] static Product declare(Blueprint& blueprint, std::string_view name,
                                       const Shape& shape, int parts, const ExpertOptions& options,
                                       Init init);
  void declare_gradients(Blueprint& blueprint, const RowSplit& rows, const ExpertOptions& options);
  [[nodiscard]] Tensor weight(const Context& context, const Product& product) const;
  [[nodiscard]] Tensor bias(const Context& context, const Product& product) const;
  [[nodiscard]] Tensor own_rows(const Tensor& local) const;
  void multiply(const Context& context, int round) const;
  void send_again(const Context& context, int round, const Tensor& normed) const;
  void backward_round(const Context& context, int round, const Tensor& gradient) const;
  void accumulate(const Context& context, int round) const;
  void accumulate(const Context& context, const Product& product, const Tensor& dy,
                  const Tensor& x) const;
  void report(const Context& context) const;

  RowSplit rows_;
  ops::ActivationKind activation_;
  bool split_backward_, recomputes_;
  Router router_;
  RowExchange exchange_;
  ops::F32Products products_, sums_;  // sums_: of weight gradients
  Product expand_, contract_;
  // Rows at the owner: x (R, C), expanded (R, 2 F), activated (R, F), out (R, C).
  Activation x_, expanded_, activated_, out_;
  Activation dy_{}, dactivated_{}, dexpanded_{};  // gradients of out, activated and expanded
  Activation weights_{}, dweights_{};             // (R) f32, of the rows
  Activation dchoice_{};                          // (N, k) f32, of the router's weights
  Activation padded_{};                           // rows that tensor ranks cannot share evenly
};

}  // namespace trireme
