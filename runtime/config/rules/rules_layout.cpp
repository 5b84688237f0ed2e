// SPDX-License-Identifier: Apache-2.0
// Ranks and batches.
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "runtime/config/rules/rules.h"

namespace trireme::config {

std::string any_of(std::span<const std::int64_t> values) {
  if (values.empty()) return "none";
  if (values.size() == 1) return fmt::format("{}", values[0]);
  return fmt::format("{} or {}", fmt::join(values.first(values.size() - 1), ", "), values.back());
}

std::vector<std::int64_t> near_divisors(std::int64_t value, std::int64_t wanted,
                                        std::int64_t minimum, std::size_t count) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t low = 1; low * low <= value; ++low) {
    if (value % low != 0) continue;
    for (const std::int64_t divisor : {low, value / low}) {
      if (divisor >= minimum && std::ranges::find(divisors, divisor) == divisors.end())
        divisors.push_back(divisor);
    }
  }
  std::ranges::sort(divisors, {},
                    [wanted](std::int64_t divisor) { return std::abs(divisor - wanted); });
  if (divisors.size() > count) divisors.resize(count);
  std::ranges::sort(divisors);
  return divisors;
}

std::int64_t other_ranks(const ParallelConfig& parallel) {
  return parallel.tensor * parallel.pipeline;
}

void check_layout(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t ranks = subject.environment.ranks;
  const std::int64_t others = other_ranks(parallel);
  if (ranks % others != 0) {
    refuse(subject, "parallel.data",
           "{} ranks cannot be split: tensor * pipeline = {} does not divide "
           "them; start a multiple of {} ranks",
           ranks, others, others);
  }
  if (parallel.data != 0 && parallel.data * others != ranks) {
    refuse(subject, "parallel.data",
           "{} data-parallel ranks{} in a job of {}; use auto or {}, or start {} ranks",
           parallel.data, others == 1 ? "" : fmt::format(" times {} along the other axes", others),
           ranks, ranks / others, parallel.data * others);
  }
  if (subject.config.reproducibility == Reproducibility::layout && parallel.tensor > 1 &&
      parallel.tensor_blocks == 0 && subject.family().splits_tensor) {
    refuse(subject, "parallel.tensor_blocks",
           "auto with reproducibility: layout and parallel.tensor = {}, which would make the bits "
           "depend on tensor; use {} or a multiple of it, the same in every run to compare",
           parallel.tensor, parallel.tensor);
  }
}

void check_batch(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const std::int64_t ranks = subject.config.parallel.data;
  const std::int64_t unit = train.micro_batch * ranks;
  if (train.global_batch % unit == 0) return;

  std::vector<std::int64_t> batches;
  if (train.global_batch > unit) batches.push_back(train.global_batch / unit * unit);
  batches.push_back((train.global_batch / unit + 1) * unit);
  std::string fixes = fmt::format("use global_batch {}", any_of(batches));
  if (train.global_batch % ranks == 0) {
    fixes += fmt::format(", or micro_batch {}",
                         any_of(near_divisors(train.global_batch / ranks, train.micro_batch)));
  }
  if (train.global_batch % train.micro_batch == 0) {
    fixes += fmt::format(", or {} ranks",
                         any_of(near_divisors(train.global_batch / train.micro_batch, ranks)));
  }
  refuse(subject, "train.global_batch",
         "{} is not a multiple of train.micro_batch * parallel.data = {} * {} = {}; {}",
         train.global_batch, train.micro_batch, ranks, unit, fixes);
}

}  // namespace trireme::config
