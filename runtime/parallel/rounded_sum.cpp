// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/rounded_sum.h"

#include "runtime/ops/elementwise/elementwise.h"
#include "runtime/ops/update/block_sum.h"

namespace trireme {
namespace {

// Elements per rank of `count`; the last slice may be padded.
std::int64_t slice_of(std::int64_t count, int ranks) {
  return (count + ranks - 1) / ranks;
}

}  // namespace

RoundedSum::RoundedSum(Device& device, Communicator& group, DType dtype, std::int64_t largest)
    : device_(device), group_(group), dtype_(dtype) {
  const MemoryScope scope(MemoryRole::gradients);
  const auto bytes =
      static_cast<std::size_t>(slice_of(largest, group.size()) * group.size()) * size_of(dtype);
  rounded_ = Buffer(device, bytes, MemoryKind::device);
  received_ = Buffer(device, bytes, MemoryKind::device);
}

Tensor RoundedSum::exchanged(Stream& stream, const Tensor& values, std::int64_t slice) const {
  const std::int64_t ranks = group_.size();
  const Tensor rounded = rounded_.view(dtype_, {ranks * slice});
  const Tensor received = received_.view(dtype_, {ranks, slice});
  ops::cast(stream, rounded.range(0, values.count()), values);
  const Tensor padding = rounded.range(values.count(), rounded.count() - values.count());
  if (padding.count() > 0) device_.fill_zero(stream, padding.data, padding.bytes());
  group_.all_to_all(stream, rounded, received);
  return received;
}

void RoundedSum::all_reduce(Stream& stream, const Tensor& values) const {
  const std::int64_t slice = slice_of(values.count(), group_.size());
  const Tensor received = exchanged(stream, values, slice);
  const Tensor sums = rounded_.view(dtype_, {group_.size() * slice});
  const Tensor own = sums.range(group_.rank() * slice, slice);
  ops::sum_blocks(stream, own, received);
  group_.all_gather(stream, own, sums);
  ops::cast(stream, values, sums.range(0, values.count()));
}

void RoundedSum::reduce_scatter(Stream& stream, const Tensor& in, const Tensor& out) const {
  ops::sum_blocks(stream, out, exchanged(stream, in, out.count()));
}

}  // namespace trireme
