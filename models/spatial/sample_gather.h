// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "models/spatial/box_exchange.h"

namespace trireme {

// Between a tensor in slabs and the whole of it on every rank. Free without spatial parallelism.
class SampleGather {
 public:
  // `shape`: (N, [D,] H, W, C), whole.
  SampleGather(Blueprint& blueprint, const Shape& shape, DType dtype);

  [[nodiscard]] const Slabs& slabs() const { return slabs_; }
  // Only if the tensor is cut: whole = the ranks' slabs, and back: held = this rank's slabs.
  void gather(const Context& context, const Tensor& whole, const Tensor& held) const;
  void take(const Context& context, const Tensor& held, const Tensor& whole) const {
    (*own_)(context, held, whole);
  }

 private:
  Slabs slabs_;
  std::optional<SlabCopy> own_{};
  std::optional<BoxExchange> exchange_{};
};

}  // namespace trireme
