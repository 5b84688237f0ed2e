// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/model.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace trireme {

// Gradients at the boundaries live below the layers' own scratch and alternate between two regions,
// since a layer needs at most the gradient on each of its two sides. A layer that works in place
// keeps its neighbour's region.
void Model::lay_out_boundaries(Blueprint& blueprint, bool training) {
  const std::size_t count = layers_.size() - 1;
  boundaries_.resize(count);
  std::array<std::size_t, 2> region_bytes{};
  std::vector<std::size_t> region(count);
  for (std::size_t i = 0; i < count; ++i) {
    boundaries_[i].value = blueprint.keep(layers_[i]->output_shape());
    const bool in_place = i > 0 && layers_[i]->backward_in_place();
    region[i] = i == 0 ? 0 : (in_place ? region[i - 1] : 1 - region[i - 1]);
    region_bytes[region[i]] = std::max(
        region_bytes[region[i]], static_cast<std::size_t>(layers_[i]->output_shape().count()) *
                                     size_of(blueprint.compute()));
  }
  if (!training) return;
  const auto reserve = [&](std::size_t bytes) {
    return blueprint.scratch(Shape{static_cast<std::int64_t>(bytes)}, DType::u8);
  };
  const std::array<Activation, 2> regions{reserve(region_bytes[0]), reserve(region_bytes[1])};
  for (std::size_t i = 0; i < count; ++i) {
    boundaries_[i].gradient = {Activation::Space::scratch, regions[region[i]].offset,
                               blueprint.compute(), layers_[i]->output_shape()};
  }
}

void Model::adopt(Blueprint& blueprint, Declaration declaration, bool training) {
  layers_ = std::move(declaration.layers);
  head_ = declaration.head;
  TRIREME_EXPECTS(layers_.size() >= 2, "a model needs an input layer and a head, got {} layers",
                  layers_.size());
  losses_ = blueprint.keep(Shape{head_.targets}, DType::f32);
  hits_ = blueprint.keep(Shape{head_.targets}, DType::f32);
  // The layers' scratch was reserved in scopes that are closed by now; boundary gradients must not
  // overlap it, so they go above its peak.
  static_cast<void>(blueprint.scratch(
      Shape{static_cast<std::int64_t>(blueprint.scratch_layout().peak_bytes())}, DType::u8));
  lay_out_boundaries(blueprint, training);
  params_.allocate(device_, blueprint.compute(), training);
  kept_ = Arena(device_, blueprint.kept_layout());
  scratch_ = Arena(device_, blueprint.scratch_layout());
  workspace_ = Arena(device_, blueprint.workspace_layout());
}

Context Model::context(Stream& stream, const Batch& batch, bool training) const {
  Context context{stream, params_, kept_, scratch_, workspace_, batch};
  context.training = training;
  context.losses = context(losses_);
  context.hits = context(hits_);
  return context;
}

void Model::forward(const Context& context) {
  Tensor x = context.batch.inputs;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Tensor y = i < boundaries_.size() ? context(boundaries_[i].value) : Tensor{};
    layers_[i]->forward(context, x, y);
    x = y;
  }
}

void Model::backward(const Context& context) {
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const bool first = i == 0, last = i == boundaries_.size();
    const Tensor x = first ? context.batch.inputs : context(boundaries_[i - 1].value);
    const Tensor y = last ? Tensor{} : context(boundaries_[i].value);
    const Tensor dy = last ? Tensor{} : context(boundaries_[i].gradient);
    const Tensor dx = first ? Tensor{} : context(boundaries_[i - 1].gradient);
    layers_[i]->backward(context, x, y, dy, dx);
  }
}

double Model::forward_flops() const {
  return std::accumulate(layers_.begin(), layers_.end(), 0.0, [](double sum, const auto& layer) {
    return sum + layer->forward_flops();
  });
}

}  // namespace trireme
