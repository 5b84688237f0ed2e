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
  return parallel.inner_ranks() * parallel.context * parallel.pipeline;
}

std::string data_ranks_text(const ParallelConfig& parallel) {
  return fmt::format("parallel.data{} = {}", parallel.context > 1 ? " * parallel.context" : "",
                     parallel.data_ranks());
}

void check_layout(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t ranks = subject.environment.ranks;
  const std::int64_t others = other_ranks(parallel);
  if (ranks % others != 0) {
    refuse(subject, "parallel.data",
           "{} ranks cannot be split: {}{} * pipeline = {} does not divide "
           "them; start a multiple of {} ranks",
           ranks, parallel.cuts_samples() ? "spatial" : "tensor",
           parallel.context > 1 ? " * context" : "", others, others);
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
           "auto with reproducibility: layout and parallel.tensor = {}, so the bits would depend "
           "on tensor; use {} or a multiple of it, the same value in all runs that you compare",
           parallel.tensor, parallel.tensor);
  }
}

namespace {

constexpr std::string_view zero_group_key = "parallel.zero_group";

// Data ranks of one host, which must be the same number on all of them, and consecutive.
std::int64_t data_ranks_of_a_host(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::vector<int>& hosts = subject.environment.hosts;
  if (hosts.empty())
    refuse(subject, zero_group_key,
           "node, but it is not known here which ranks will share a host; use a number, or all");
  std::int64_t most = 0;
  for (std::int64_t stage = 0; stage < parallel.pipeline; ++stage) {
    for (std::int64_t tensor = 0; tensor < parallel.inner_ranks(); ++tensor) {
      std::vector<int> row;  // by data rank; ranks as in runtime/comm/process_mesh.h
      for (std::int64_t data = 0; data < parallel.data_ranks(); ++data)
        row.push_back(hosts[static_cast<std::size_t>(
            (stage * parallel.data_ranks() + data) * parallel.inner_ranks() + tensor)]);
      for (auto first = row.begin(); first != row.end(); first += most) {
        const auto end = std::find_if(first, row.end(), [&](int host) { return host != *first; });
        if (most == 0) most = end - first;
        if (end - first == most && std::ranges::count(row, *first) == most) continue;
        refuse(subject, zero_group_key,
               "node, but the hosts do not have equally many consecutive data ranks: the first has "
               "{}, that of data rank {} of stage {} has {} of {} in a row; start equally many "
               "ranks on each, host by host, or use a number, or all",
               most, first - row.begin(), stage, end - first, std::ranges::count(row, *first));
      }
    }
  }
  return most;
}

}  // namespace

std::int64_t checked_zero_group(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t data = parallel.data_ranks();
  if (parallel.zero_group == 0) return 0;
  const bool node = parallel.zero_group < 0;
  const std::string asked = node ? "node" : fmt::format("{}", parallel.zero_group);
  if (parallel.zero == 0)
    refuse(subject, zero_group_key,
           "{} with parallel.zero: 0, which shards nothing; use all, or zero 1, 2 or 3", asked);
  const std::int64_t group = node ? data_ranks_of_a_host(subject) : parallel.zero_group;
  const bool tree = config.reproducibility == Reproducibility::layout;
  // In layout mode a group's sum is a node of the tree over all data ranks.
  const auto fits = [&](std::int64_t size) {
    const bool subtree = power_of_two(size) || size == parallel.context;
    return size == data || (size > 1 && data % size == 0 && (!tree || subtree));
  };
  if (fits(group)) return group;
  std::vector<std::int64_t> fitting = near_divisors(data, group, 1, static_cast<std::size_t>(data));
  std::erase_if(fitting, [&](std::int64_t size) { return size == data || !fits(size); });
  const std::string_view why = group == 1 ? ", groups of one rank, shards nothing"
                               : data % group > 0
                                   ? " does not divide the data ranks"
                                   : " is not a power of two, so with reproducibility: layout not "
                                     "a subtree of the tree of sums";
  refuse(subject, zero_group_key, "{}{}{}, {}; use {}all", asked,
         node ? fmt::format(" ({} data ranks of a host)", group) : "", why,
         data_ranks_text(parallel), fitting.empty() ? "" : any_of(fitting) + ", or ");
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
           "{} samples in micro-batches of {} make {} micro-batches, fewer than parallel.data = {} "
           "ranks; use global_batch {}{}, or {} data ranks or fewer",
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
