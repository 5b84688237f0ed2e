// SPDX-License-Identifier: Apache-2.0
// Skip connections between the layers of a model.
#include "runtime/nn/model.h"

namespace trireme {

// A skip lies where the chunk receives it or sends it; one that begins and ends here is kept, and
// its gradient lives from the backward of the one layer to that of the other.
void Model::lay_out_skips(Blueprint& blueprint, Chunk& chunk, std::size_t first) {
  const bool training = blueprint.options().training;
  const std::size_t count = chunk.layers.size();
  // A chunk whose layers all work in place hands on what it received.
  if (training && chunk.input_gradient.parts.empty() && chunk.boundaries[0].exists) {
    TRIREME_EXPECTS(chunk.received.size() == chunk.sent.size(),
                    "a layer with skips whose backward works in place");
    chunk.input_gradient = chunk.output_gradient;
    chunk.input_gradient.parts[0].shape = chunk.boundaries[0].value.shape;
    if (chunk.received.empty()) chunk.input_gradient.whole = chunk.boundaries[0].gradient;
  }
  skips_.resize(blueprint.skip_shapes().size());
  std::vector<bool> placed(skips_.size(), false);
  const auto put = [&](const std::vector<OpenSkip>& skips, const Message& values,
                       const Message& gradients) {
    for (std::size_t k = 0; k < skips.size(); ++k) {
      const SkipPlace place{values.parts[k + 1], training ? gradients.parts[k + 1] : Activation{}};
      const auto id = static_cast<std::size_t>(skips[k].id);
      if (placed[id]) {
        chunk.passing.push_back({skips_[id], place});
      } else {
        skips_[id] = place;
      }
      placed[id] = true;
    }
  };
  put(chunk.received, chunk.input, chunk.input_gradient);
  if (chunk.boundaries[count].exists) put(chunk.sent, chunk.output, chunk.output_gradient);
  skip_scratch_.rewind(0);
  for (std::size_t id = first; id < skips_.size(); ++id) {
    if (placed[id]) continue;
    const Shape& shape = blueprint.skip_shapes()[id];
    skips_[id].value = blueprint.keep(shape);
    if (!training) continue;
    skips_[id].gradient = skips_[id].value;
    skips_[id].gradient.space = Activation::Space::scratch;
    skips_[id].gradient.offset =
        skip_scratch_.reserve(bytes_of(skips_[id].value.shape, blueprint.compute()));
  }
}

// Copies skips, or their gradients, that cross the whole chunk.
void Model::pass_skips(const Context& context, LayerPass pass) const {
  for (const auto& [in, out] : at(context.chunk).passing) {
    const bool forward = pass == LayerPass::forward;
    const Tensor from = context(forward ? in.value : out.gradient);
    const Tensor to = context(forward ? out.value : in.gradient);
    if (from.data != to.data) device_.copy(context.stream, to.data, from.data, from.bytes());
  }
}

}  // namespace trireme
