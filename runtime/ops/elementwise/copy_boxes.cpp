// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/elementwise/copy_boxes.h"

#include "runtime/ops/common/dispatch.h"
#include "runtime/ops/common/operands.h"

namespace trireme::ops {

TRIREME_KERNELS(copy_boxes);

namespace {

std::int64_t end_of(std::int64_t first, const BoxCopy& box,
                    const std::array<std::int64_t, 3>& strides) {
  std::int64_t last = first + box.counts[3] - 1;
  for (std::size_t i = 0; i < strides.size(); ++i)
    last += (box.counts[i] - 1) * strides[i];
  return last + 1;
}

}  // namespace

void copy_boxes(Stream& stream, const Tensor& to, const Tensor& from,
                std::span<const BoxCopy> boxes) {
  if (boxes.empty()) return;
  const Operands check("copy_boxes");
  check.present("to", to);
  check.present("from", from);
  check.dtype("from", from, to.dtype);
  check.disjoint("to", to, "from", from);
  double moved = 0;
  for (const BoxCopy& box : boxes) {
    TRIREME_EXPECTS(box.count() > 0 && box.to >= 0 && box.from >= 0 &&
                        end_of(box.to, box, box.to_strides) <= to.count() &&
                        end_of(box.from, box, box.from_strides) <= from.count(),
                    "copy_boxes: a box of {} elements does not lie in {} and {}", box.count(),
                    to.shape.to_string(), from.shape.to_string());
    moved += static_cast<double>(box.count()) * static_cast<double>(size_of(to.dtype));
  }
  constexpr int boxes_of_launch = 24;
  const int launches = (static_cast<int>(boxes.size()) - 1) / boxes_of_launch + 1;
  TRIREME_DISPATCH(stream, copy_boxes, reads().bytes(moved, moved).kernels(launches), to, from,
                   boxes);
}

}  // namespace trireme::ops
