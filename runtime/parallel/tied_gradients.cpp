// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/tied_gradients.h"

#include <algorithm>

#include "runtime/comm/comm_label.h"
#include "runtime/ops/elementwise/elementwise.h"

namespace trireme {

TiedGradients::TiedGradients(Device& device, Communicator& pipeline, const ParamStore& params)
    : pipeline_(pipeline), params_(params) {
  const ParamLayout& layout = params.layout();
  std::int64_t widest = 0;
  for (const ParamId id : layout.order()) {
    const ParamSpec& spec = layout.spec(id);
    if (spec.tie.empty() || !layout.trains(id)) continue;
    Tie tie{.bucket = layout.bucket_of(id)};
    const auto copy = std::ranges::find_if(layout.order(), [&](ParamId other) {
      return layout.spec(other).is_copy() && layout.spec(other).tie == spec.tie;
    });
    const bool original_here = layout.find(spec.tie).index >= 0;
    if (original_here && copy != layout.order().end()) {
      if (spec.is_copy()) continue;  // the original's entry covers both
      tie.partner = layout.bucket_of(*copy);
    } else {
      if (pipeline.size() == 1) continue;  // one parameter read twice
      tie.peer = spec.is_copy() ? 0 : pipeline.size() - 1;
      const Bucket& bucket = layout.buckets()[static_cast<std::size_t>(tie.bucket)];
      widest = std::max(widest, layout.slice_count(bucket));
    }
    ties_.push_back(tie);
  }
  const MemoryScope scope(MemoryRole::gradients);
  received_ = Buffer(device, static_cast<std::size_t>(widest) * sizeof(float), MemoryKind::device);
}

void TiedGradients::add(Stream& comm) {
  const auto buckets = params_.layout().buckets();
  const auto own = [&](int bucket) {
    return params_.gradients().owned(buckets[static_cast<std::size_t>(bucket)]);
  };
  for (const Tie& tie : ties_) {
    const Tensor gradient = own(tie.bucket);
    if (tie.partner >= 0) {
      const Tensor copy = own(tie.partner);
      ops::add_in_place(comm, gradient, copy);
      ops::cast(comm, copy, gradient);
      continue;
    }
    const ScopedCommLabel label("tied gradients");
    const Tensor other = received_.view(DType::f32, gradient.shape);
    pipeline_.group_begin();
    pipeline_.send(comm, gradient, tie.peer);
    pipeline_.recv(comm, other, tie.peer);
    pipeline_.group_end(comm);
    ops::add_in_place(comm, gradient, other);
  }
}

}  // namespace trireme
