// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/target_ranks.h"

#include "runtime/ops/loss/target_rank.h"

namespace trireme {
namespace {

std::size_t bytes_of(const HeadInfo& head) {
  return static_cast<std::size_t>(head.targets) * sizeof(float);
}

}  // namespace

TargetRanks::TargetRanks(Device& device, const Model& model)
    : head_(model.head()),
      values_(device, bytes_of(head_), MemoryKind::device),
      ranks_(device, bytes_of(head_), MemoryKind::device) {}

Tensor TargetRanks::of(const Context& context) const {
  const std::int64_t rows = head_.targets;
  const Tensor logits = context(head_.logits), targets = context.batch.targets.reshaped({rows});
  const Tensor values = values_.view(DType::f32, Shape{rows});
  const Tensor ranks = ranks_.view(DType::f32, Shape{rows});
  // (rows, classes), or for a split vocabulary (local blocks, rows, W).
  const std::int64_t width = logits.shape.back(), local = logits.count() / (rows * width);
  const bool split = logits.shape.rank() == 3 && context.tensor != nullptr;
  const std::int64_t first = split ? context.tensor->rank() * local : 0;
  const auto each_block = [&](auto&& op) {
    for (std::int64_t b = 0; b < local; ++b)
      op(logits.range(b * rows * width, rows * width).reshaped({rows, width}),
         ops::ClassBlock{head_.classes, (first + b) * width}, /*accumulate=*/b > 0);
  };
  each_block([&](const Tensor& block, const ops::ClassBlock& classes, bool accumulate) {
    ops::target_logits(context.stream, values, block, targets, classes, accumulate);
  });
  if (split) context.tensor->all_reduce(context.stream, values, ReduceOp::max);
  each_block([&](const Tensor& block, const ops::ClassBlock& classes, bool accumulate) {
    ops::target_ranks(context.stream, ranks, values, block, targets, classes, accumulate);
  });
  if (split) context.tensor->all_reduce(context.stream, ranks);
  return ranks;
}

}  // namespace trireme
