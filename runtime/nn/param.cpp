// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/param.h"

#include <array>

namespace trireme {

Shape stored_shape(const ParamSpec& spec, const TensorSplit& split) {
  if (!is_split(spec, split)) return spec.shape;
  std::array<std::int64_t, Shape::max_rank> extents{split.local()};
  const std::size_t rank = spec.shape.rank();
  for (std::size_t i = 0; i < rank; ++i)
    extents[i + 1] = spec.shape[i];
  const auto axis = static_cast<std::size_t>(spec.shard_axis);
  TRIREME_EXPECTS(axis < rank && spec.shape[axis] % (split.blocks * spec.shard_units()) == 0,
                  "parameter {} {}: axis {} in {} blocks of {} parts", spec.name,
                  spec.shape.to_string(), axis, split.blocks, spec.shard_units());
  extents[axis + 1] /= split.blocks;
  return Shape(std::span<const std::int64_t>(extents.data(), rank + 1));
}

}  // namespace trireme
