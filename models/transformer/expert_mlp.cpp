// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "models/experts/expert_layer.h"
#include "models/transformer/tiled_mlp.h"

namespace trireme {
namespace {

// A mixture of experts (experts/expert_layer.h), with an optional MLP that every token visits,
// which runs while rows travel to their experts.
class ExpertMlp final : public FeedForward {
 public:
  ExpertMlp(Blueprint& blueprint, const TransformerOptions& options, const PartialSum& sum)
      : experts_(blueprint, options.experts, sum.rows(), options.hidden_init(),
                 options.residual_init()) {
    if (options.experts.shared_intermediate == 0) return;
    TransformerOptions shared = options;
    shared.intermediate = options.experts.shared_intermediate;
    shared.intermediate_name = "model.shared_intermediate";
    const auto scope = blueprint.scope("shared");
    shared_.emplace(blueprint, shared, sum);
    // Of its products, the first, of two matrices, is computed before the rows must have arrived.
    blueprint.traffic().experts.beside_flops =
        4.0 * static_cast<double>(blueprint.micro_batch() * blueprint.rows_of(options.context) *
                                  options.hidden * shared.intermediate);
  }

  [[nodiscard]] const Activation& spare() const override { return experts_.spare(); }
  [[nodiscard]] Tensor amax(const Context& context) const override {
    return shared_ ? shared_->amax(context) : Tensor{};
  }
  [[nodiscard]] Tensor gradient_amax(const Context& context) const override {
    return shared_ ? shared_->gradient_amax(context) : Tensor{};
  }

  void forward(const Context& context, const Tensor& normed,
               const Tensor& normed_amax) const override {
    experts_.start(context, normed);
    if (shared_) shared_->forward(context, normed, normed_amax);
    experts_.activate(context);
  }
  void project(const Context& context, const Tensor& out, const Tensor& residual,
               const Tensor& normed) const override {
    if (shared_) shared_->project(context, out, residual, normed);
    experts_.project(context, out, shared_ ? out : residual, normed);
  }
  void activate_again(const Context& context) const override {
    if (shared_) shared_->activate_again(context);
    experts_.activate_again(context);
  }
  void backward(const Context& context, const Tensor& dnormed, const Tensor& gradient,
                const Tensor& normed, const Tensor& gradient_amax) const override {
    if (shared_) shared_->backward(context, dnormed, gradient, normed, gradient_amax);
    experts_.backward(context, dnormed, gradient, normed, shared_.has_value());
  }
  void backward_weight(const Context& context, const Tensor& gradient,
                       const Tensor& normed) const override {
    if (shared_) shared_->backward_weight(context, gradient, normed);
    experts_.backward_weight(context, gradient, normed);
  }

  void add_limits(ModelLimits& limits) const override {
    if (shared_) shared_->add_limits(limits);
    experts_.add_limits(limits);
  }

 private:
  ExpertLayer experts_;
  std::optional<Mlp> shared_;
};

}  // namespace

std::unique_ptr<FeedForward> make_feed_forward(Blueprint& blueprint,
                                               const TransformerOptions& options,
                                               const PartialSum& sum) {
  const auto scope = blueprint.scope("mlp");
  if (options.experts.any()) return std::make_unique<ExpertMlp>(blueprint, options, sum);
  if (blueprint.options().row_tile > 0 && !blueprint.decodes())
    return std::make_unique<TiledMlp>(blueprint, options);
  return std::make_unique<Mlp>(blueprint, options, sum);
}

}  // namespace trireme
