// SPDX-License-Identifier: Apache-2.0
// parallel.expert: experts against the model and the other parallel modes. parallel.data and
// parallel.zero_group are resolved.
#include <algorithm>

#include "runtime/config/batch_slices.h"
#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

constexpr std::string_view key = "parallel.expert";

// One divides the other.
bool nested(std::int64_t one, std::int64_t other) {
  return one % other == 0 || other % one == 0;
}

// The values of parallel.expert that the model and the ranks allow.
std::string fitting(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  std::vector<std::int64_t> ranks;
  for (std::int64_t data = 1; data <= parallel.data_ranks(); ++data) {
    const std::int64_t all = data * parallel.tensor;
    if (parallel.data_ranks() % data == 0 && subject.limits.experts.value % all == 0 &&
        nested(data, parallel.context))
      ranks.push_back(all);
  }
  return ranks.empty() ? "auto" : "auto or " + any_of(ranks);
}

void check_buffer(const Subject& subject, std::int64_t ranks) {
  const double buffer = subject.config.parallel.expert_capacity_factor;
  const bool sent = ranks > 1 && subject.limits.experts.value > 0;
  if (sent || buffer == ParallelConfig{}.expert_capacity_factor) return;
  refuse(subject, "parallel.expert_capacity_factor", "{} has no effect, because no rows travel: {}",
         buffer,
         subject.limits.experts.value == 0
             ? "the model has no experts; remove it"
             : "parallel.expert resolves to one rank; remove it, or set parallel.expert above 1");
}

void check_ranks(const Subject& subject, std::int64_t ranks) {
  const ParallelConfig& parallel = subject.config.parallel;
  const Extent& experts = subject.limits.experts;
  if (experts.value == 0) {
    if (ranks > parallel.tensor)
      refuse(subject, key, "{} with model.family: {}, which has no experts; use auto", ranks,
             subject.config.model.family);
    return;
  }
  if (ranks % parallel.tensor != 0)
    refuse(subject, key, "{} is not a multiple of parallel.tensor = {}; use {}", ranks,
           parallel.tensor, fitting(subject));
  if (experts.value % ranks != 0)
    refuse(subject, key, "{}{} does not divide {} = {}; use {}{}",
           parallel.expert == 0 ? "auto = parallel.tensor = " : "", ranks, experts.name,
           experts.value, fitting(subject),
           parallel.tensor > 1 ? ", or another parallel.tensor" : "");
  const std::int64_t sharing = ranks / parallel.tensor;
  if (parallel.data_ranks() % sharing != 0)
    refuse(subject, key,
           "{} with parallel.tensor: {} needs runs of {} data ranks, which do not divide {}; use "
           "{}",
           ranks, parallel.tensor, sharing, data_ranks_text(parallel), fitting(subject));
  if (!nested(sharing, parallel.context))
    refuse(subject, key,
           "{}: experts are shared by {} data ranks, sequences by {} (parallel.context), and "
           "neither divides the other; use {}",
           ranks, sharing, parallel.context, fitting(subject));
}

// Whether ranks that share experts have equally many micro-batches. Numbers never ascend.
bool share_evenly(const Config& config) {
  const BatchSlices slices = batch_slices(config);
  const std::int64_t sharing =
      std::max<std::int64_t>(config.parallel.expert_data_ranks() / config.parallel.context, 1);
  for (std::int64_t rank = 0; rank < slices.ranks(); rank += sharing)
    if (slices.of(rank).count != slices.of(rank + sharing - 1).count) return false;
  return true;
}

// Ranks that exchange rows must do so equally often.
void check_slices(const Subject& subject) {
  const Config& config = subject.config;
  Config other = config;
  std::int64_t& global = other.train.global_batch;
  if (share_evenly(other)) return;
  std::vector<std::int64_t> fitting;
  const std::int64_t rows = config.train.micro_batch;
  for (const std::int64_t by : {-rows, rows}) {
    for (global = config.train.global_batch; !share_evenly(other);)
      global += by;
    fitting.push_back(global);
  }
  refuse(subject, key,
         "{} above parallel.tensor = {}, whose data ranks exchange rows in every micro-batch, but "
         "hold {} micro-batches; use auto, or train.global_batch {}",
         config.parallel.expert, config.parallel.tensor, batch_slices(config).to_string(),
         any_of(fitting));
}

// ZeRO's groups of data ranks and those that share experts are nested, and in layout mode nodes of
// the tree of sums (parallel/grad_reducer.h).
void check_groups(const Subject& subject, std::int64_t sharing) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t group = parallel.shard();
  if (!nested(group, sharing))
    refuse(
        subject, key,
        "{}: experts are shared by {} data ranks, ZeRO's slices by {} (parallel.zero_group), and "
        "neither divides the other; use {}",
        parallel.expert, sharing, group, fitting(subject));
  if (subject.config.reproducibility != Reproducibility::layout) return;
  if (!power_of_two(sharing) && sharing != parallel.data_ranks())
    refuse(subject, key,
           "{} with reproducibility: layout: {} data ranks that share experts are not a subtree of "
           "the tree of sums; use a power of two times parallel.tensor",
           parallel.expert, sharing);
  if (parallel.zero >= 2 && group < sharing)
    refuse(subject, "parallel.zero_group",
           "{} with parallel.zero: {} and reproducibility: layout, below the {} data ranks that "
           "share experts (parallel.expert); use {} or more, or all, or zero 0 or 1",
           group, parallel.zero, sharing, sharing);
}

}  // namespace

void check_experts(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  if (subject.limits.experts.value == 0 && parallel.expert_imbalance != 1)
    refuse(subject, "parallel.expert_imbalance",
           "{} has no effect: the model has no experts; use 1", parallel.expert_imbalance);
  const std::int64_t ranks = parallel.expert == 0 ? parallel.tensor : parallel.expert;
  check_ranks(subject, ranks);
  check_buffer(subject, ranks);
  const GraphMode graphs = subject.config.device.graphs;
  if (ranks > 1 && subject.limits.experts.value > 0 && graphs != GraphMode::off)
    refuse(subject, "device.graphs",
           "{} with experts over {} ranks: between passes the host reads how many rows travel, "
           "which no graph records; use off",
           name_of(graphs), ranks);
  if (parallel.expert_data_ranks() == 1) return;
  if (subject.purpose != Purpose::train)
    refuse(subject, key,
           "{} above parallel.tensor = {}, but data ranks work on their own only in training; use "
           "auto, or parallel.tensor to share experts",
           ranks, parallel.tensor);
  check_slices(subject);
  check_groups(subject, parallel.expert_data_ranks());
}

}  // namespace trireme::config
