// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/memory_advice.h"

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

using Remedies = std::vector<std::string>;

// Activations and batches grow with the micro-batch.
void add_micro_batch(Remedies& advice, const Config& config, const OutOfMemory& lack) {
  const std::int64_t now = config.train.micro_batch;
  const std::int64_t of_rank =
      config.train.global_batch / std::max<std::int64_t>(1, config.parallel.data);
  const double fitting =
      static_cast<double>(now) * static_cast<double>(lack.room) / static_cast<double>(lack.bytes);
  for (auto batch = std::min(now - 1, static_cast<std::int64_t>(fitting)); batch >= 1; --batch) {
    if (of_rank % batch != 0) continue;
    advice.push_back(fmt::format("train.micro_batch: {} (now {}) would fit", batch, now));
    return;
  }
}

// The ZeRO stage that first shards memory of this role.
void add_zero(Remedies& advice, const Config& config, const OutOfMemory& lack, std::int64_t stage) {
  if (config.parallel.zero >= stage) return;
  const auto ranks = static_cast<std::size_t>(std::max<std::int64_t>(1, config.parallel.data));
  const bool fits = lack.bytes / ranks < lack.room;
  advice.push_back(fmt::format(
      "parallel.zero: {} shares the {} out among data-parallel ranks{}", stage, name_of(lack.role),
      fits ? fmt::format(": {} would fit", ranks)
           : fmt::format(", of which {} would fit",
                         (lack.bytes + lack.room - 1) / std::max<std::size_t>(1, lack.room))));
}

}  // namespace

std::string memory_advice(const Config& config, const OutOfMemory& lack) {
  Remedies advice;
  switch (lack.role) {
    case MemoryRole::parameters:
      add_zero(advice, config, lack, 3);
      break;
    case MemoryRole::gradients:
      add_zero(advice, config, lack, 2);
      break;
    case MemoryRole::optimizer:
      add_zero(advice, config, lack, 1);
      break;
    case MemoryRole::activations:
      add_micro_batch(advice, config, lack);
      if (config.train.recompute != Recompute::full)
        advice.push_back(fmt::format("train.recompute: full (now {}) keeps only the blocks' inputs",
                                     name_of(config.train.recompute)));
      break;
    case MemoryRole::staging:
    case MemoryRole::workspace:
    case MemoryRole::other:
      add_micro_batch(advice, config, lack);
      break;
  }
  advice.emplace_back("more parallel.tensor or parallel.pipeline ranks share out the model");
  return fmt::format("; {}", fmt::join(advice, "; "));
}

}  // namespace trireme
