// SPDX-License-Identifier: Apache-2.0
#include "models/spatial/sample_gather.h"

namespace trireme {

SampleGather::SampleGather(Blueprint& blueprint, const Shape& shape, DType dtype)
    : slabs_(blueprint.spatial(), shape) {
  if (!slabs_.cut()) return;
  own_.emplace(slabs_, box_of(shape), shape.back());
  std::vector<BoxExchange::Need> needs;
  for (int rank = 0; rank < blueprint.spatial().rank_count(); ++rank)
    needs.push_back({rank, box_of(shape)});
  exchange_.emplace(blueprint, shape, needs, dtype, /*keep=*/false);
}

void SampleGather::gather(const Context& context, const Tensor& whole, const Tensor& held) const {
  exchange_->start(context, held);
  exchange_->finish(context);
  exchange_->copy_box(context, whole, held, 0);
}

}  // namespace trireme
