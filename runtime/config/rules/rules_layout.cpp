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

namespace {

// micro_batch sizes that give every data rank at least one micro-batch, and with `alike` equally
// many.
std::string micro_batch_fixes(const TrainConfig& train, std::int64_t ranks, bool alike) {
  if (alike && train.global_batch % ranks != 0) return {};
  auto sizes =
      near_divisors(alike ? train.global_batch / ranks : train.global_batch, train.micro_batch);
  std::erase_if(sizes, [&](std::int64_t size) { return size * ranks > train.global_batch; });
  return sizes.empty() ? std::string() : fmt::format(", or micro_batch {}", any_of(sizes));
}

// Multiples of `unit` around the global batch.
std::string global_batch_fixes(const TrainConfig& train, std::int64_t unit, std::int64_t least) {
  std::vector<std::int64_t> batches;
  for (const std::int64_t units : {train.global_batch / unit, train.global_batch / unit + 1})
    if (units * unit >= least) batches.push_back(units * unit);
  if (batches.empty()) batches.push_back(least);
  return fmt::format("use global_batch {}", any_of(batches));
}

}  // namespace

// Data ranks may hold different numbers of micro-batches, at least one each (batch_slices.h).
void check_batch(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const std::int64_t ranks = subject.config.parallel.data, zero = subject.config.parallel.zero;
  const std::int64_t unit = train.micro_batch * ranks;
  constexpr std::string_view key = "train.global_batch";
  if (train.global_batch % train.micro_batch != 0) {
    refuse(subject, key, "{} is not a multiple of train.micro_batch = {}; {}{}", train.global_batch,
           train.micro_batch, global_batch_fixes(train, train.micro_batch, unit),
           micro_batch_fixes(train, ranks, false));
  }
  if (train.global_batch < unit) {
    refuse(subject, key,
           "{} samples in micro-batches of {} are {}, fewer than parallel.data = {} ranks; use "
           "global_batch {}{}, or {} data ranks or fewer",
           train.global_batch, train.micro_batch, train.global_batch / train.micro_batch, ranks,
           unit, micro_batch_fixes(train, ranks, false), train.global_batch / train.micro_batch);
  }
  if (zero < 2 || train.global_batch % unit == 0) return;
  refuse(subject, key,
         "{} is not a multiple of train.micro_batch * parallel.data = {} * {} = {}, and "
         "parallel.zero: {} reduces every micro-batch over all ranks together; {}{}, or {} data "
         "ranks, or zero 0 or 1",
         train.global_batch, train.micro_batch, ranks, unit, zero,
         global_batch_fixes(train, unit, unit), micro_batch_fixes(train, ranks, true),
         any_of(near_divisors(train.global_batch / train.micro_batch, ranks)));
}

}  // namespace trireme::config
