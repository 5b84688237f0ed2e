// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/schedule_order.h"

#include <algorithm>

namespace trireme {
namespace {

std::vector<Action> gpipe_order(int micro_batches) {
  std::vector<Action> order;
  for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
    for (int m = 0; m < micro_batches; ++m)
      order.push_back({kind, 0, m});
  }
  return order;
}

// Warm-up forwards, then alternating forwards and backwards, then the remaining backwards.
// `at(kind, k)` is the k-th forward or backward of `count`.
template <typename At>
std::vector<Action> alternate(int warm_up, int count, const At& at) {
  std::vector<Action> order;
  int forwards = 0;
  for (; forwards < std::min(warm_up, count); ++forwards)
    order.push_back(at(ActionKind::forward, forwards));
  for (int backwards = 0; backwards < count; ++backwards) {
    if (forwards < count) order.push_back(at(ActionKind::forward, forwards++));
    order.push_back(at(ActionKind::backward, backwards));
  }
  return order;
}

// PipeDream-flush: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters
// Using Megatron-LM, SC 2021, section 2.2.1.
std::vector<Action> one_f_one_b_order(const ScheduleShape& shape, int stage) {
  return alternate(shape.stages - stage - 1, shape.micro_batches, [](ActionKind kind, int k) {
    return Action{kind, 0, k};
  });
}

// Same paper, section 2.2.2: groups of `stages` micro-batches pass chunk after chunk.
std::vector<Action> interleaved_order(const ScheduleShape& shape, int stage) {
  const int stages = shape.stages;
  const int warm_up = 2 * (stages - stage - 1) + (shape.chunks - 1) * stages;
  const int group = stages * shape.chunks;
  return alternate(warm_up, shape.micro_batches * shape.chunks, [&](ActionKind kind, int k) {
    const int passed = k % group / stages;
    const int chunk = kind == ActionKind::forward ? passed : shape.chunks - 1 - passed;
    return Action{kind, chunk, k / group * stages + k % stages};
  });
}

}  // namespace

std::vector<Action> compute_order(const ScheduleShape& shape, int stage) {
  switch (shape.kind) {
    case ScheduleKind::gpipe:
      return gpipe_order(shape.micro_batches);
    case ScheduleKind::interleaved:
      return interleaved_order(shape, stage);
    case ScheduleKind::zero_bubble:
      return zero_bubble_order(shape.stages, shape.micro_batches, stage);
    case ScheduleKind::one_f_one_b:
      break;
  }
  return one_f_one_b_order(shape, stage);
}

}  // namespace trireme
