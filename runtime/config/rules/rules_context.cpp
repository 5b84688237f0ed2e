// SPDX-License-Identifier: Apache-2.0
// Sequences that are cut in time (nn/context_split.h), against the model and the sums of layout
// mode.
#include <algorithm>

#include "runtime/config/batch_slices.h"
#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

constexpr std::string_view ranks_key = "parallel.context", blocks_key = "parallel.context_blocks",
                           mode_key = "parallel.context_mode", group_key = "parallel.zero_group";

// Of what the config gives: the key that cuts sequences.
std::string_view cutting_key(const ParallelConfig& parallel) {
  return parallel.context_blocks > 0 ? blocks_key : ranks_key;
}

// Two equal chunks of a sequence for each block.
void check_chunks_of(const Subject& subject, const Extent& positions) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t blocks = parallel.blocks(), unit = 2 * blocks;
  if (positions.value % unit == 0) return;
  const std::int64_t ranks = parallel.context_blocks > 0 ? parallel.context : 1;
  std::vector<std::int64_t> fitting;
  if (positions.value % (2 * ranks) == 0)
    fitting = near_divisors(positions.value / 2 / ranks, blocks / ranks);
  for (std::int64_t& each : fitting)
    each *= ranks;
  std::vector<std::int64_t> lengths;
  for (const std::int64_t units : {positions.value / unit, positions.value / unit + 1})
    if (units > 0) lengths.push_back(units * unit);
  refuse(subject, cutting_key(parallel),
         "{} blocks of two chunks each do not divide {} = {}; use {}{} {}", blocks, positions.name,
         positions.value, fitting.empty() ? "" : any_of(fitting) + ", or ", positions.name,
         any_of(lengths));
}

// Ranks have the heads of a block, and key heads that several of them use are repeated.
void check_heads(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  if (parallel.context_mode != ContextMode::heads) return;
  const std::int64_t blocks = parallel.blocks();
  const std::int64_t tensor = std::max(parallel.tensor_blocks, parallel.tensor);
  const std::int64_t heads = subject.limits.attention_heads / tensor,
                     keys = subject.limits.attention_kv_heads / tensor;
  const auto fits = [&](std::int64_t count) {
    return heads % count == 0 && (keys % count == 0 || count % keys == 0);
  };
  if (heads > 0 && keys > 0 && fits(blocks)) return;
  std::vector<std::int64_t> fitting;
  for (std::int64_t count = parallel.context; count <= heads && keys > 0; count += parallel.context)
    if (fits(count)) fitting.push_back(count);
  refuse(subject, mode_key,
         "heads with {} blocks (context_blocks), among which the {} attention heads and {} key "
         "heads{} cannot be divided; use gather{}",
         blocks, heads, keys, tensor > 1 ? fmt::format(" of each of {} tensor blocks", tensor) : "",
         fitting.empty() ? "" : fmt::format(", or context_blocks {}", any_of(fitting)));
}

// All but the heads: what no purpose allows.
void check_cut(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  const Extent& positions = subject.limits.positions;
  const std::int64_t blocks = parallel.blocks();
  if (positions.value == 0)
    refuse(subject, cutting_key(parallel),
           "{} with model.family: {}, whose samples cannot be cut in time; use 1", blocks,
           config.model.family);
  if (!subject.limits.whole_sequences.empty() && subject.purpose == Purpose::train)
    refuse(
        subject, cutting_key(parallel),
        "{} with {}, a loss over whole sequences, of which a rank has parts; use 1, or {}: 0 and "
        "model.balance_loss",
        blocks, subject.limits.whole_sequences, subject.limits.whole_sequences);
  if (blocks % parallel.context != 0)
    refuse(subject, blocks_key, "{} is not a multiple of {} = {}; use auto or {}, or context {}",
           blocks, ranks_key, parallel.context, (blocks / parallel.context + 1) * parallel.context,
           any_of(near_divisors(blocks, parallel.context)));
  check_chunks_of(subject, positions);
  // A stage sends blocks one by one (PipelineRunner).
  constexpr std::int64_t most = 14;
  if (parallel.pipeline > 1 && blocks / parallel.context > most)
    refuse(
        subject, blocks_key,
        "{} with parallel.pipeline = {}: {} blocks on each rank; use at most {}, or {} {} or more",
        blocks, parallel.pipeline, blocks / parallel.context, most * parallel.context, ranks_key,
        (blocks + most - 1) / most);
}

// Blocks are added on a rank, then over ranks, before micro-batches are: only ZeRO 2 and 3 do so
// with several micro-batches.
void check_order_of_sums(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t shard = parallel.shard(), ranks = parallel.context;
  if (batch_slices(subject.config).micro_batches() == parallel.data) return;
  if (parallel.zero < 2)
    refuse(subject, "parallel.zero",
           "{} with reproducibility: layout and {} = {}: ranks with several micro-batches would "
           "add these before the blocks of each; use 2 or 3, or one micro-batch per data rank: "
           "train.global_batch {}",
           parallel.zero, ranks_key, ranks, train.micro_batch * parallel.data);
  if (shard % ranks != 0)
    refuse(subject, group_key,
           "{} with parallel.zero: {}, reproducibility: layout and {} = {}: groups hold parts of a "
           "sequence, and would add several micro-batches before its other parts; use all or a "
           "multiple of {}",
           shard, parallel.zero, ranks_key, ranks, ranks);
}

void check_row_tile(const Subject& subject) {
  const Config& config = subject.config;
  const std::int64_t tile = config.train.row_tile;
  constexpr std::string_view key = "train.row_tile";
  if (tile == 0) return;
  const Extent& positions = subject.limits.positions;
  if (positions.value == 0)
    refuse(subject, key, "{} with model.family: {}, which has no tiles of rows; use 0", tile,
           config.model.family);
  const std::int64_t rows = config.train.micro_batch * positions.value / config.parallel.blocks();
  const std::int64_t blocks = std::max<std::int64_t>(config.parallel.tensor_blocks, 1);
  if (rows % tile == 0 && (tile % blocks == 0 || blocks == 1)) return;
  std::vector<std::int64_t> fitting;
  for (const std::int64_t each :
       near_divisors(rows / blocks, std::max<std::int64_t>(tile / blocks, 1)))
    fitting.push_back(each * blocks);
  refuse(subject, key, "{} does not divide the {} rows of a micro-batch on a rank{}; use {}, or 0",
         tile, rows,
         blocks == 1 ? "" : fmt::format(" into multiples of tensor_blocks = {}", blocks),
         any_of(fitting));
}

}  // namespace

void check_context(const Subject& subject) {
  check_row_tile(subject);
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  if (parallel.blocks() == 1 && parallel.context == 1) {
    if (parallel.context_mode != ContextMode::automatic)
      refuse(subject, mode_key, "{} has no effect with {}: 1, which cuts nothing; use auto",
             name_of(parallel.context_mode), ranks_key);
    return;
  }
  // Ranks share the rows of a prompt's passes, whatever their number.
  if (subject.purpose == Purpose::generate && subject.limits.positions.value > 0) return;
  check_cut(subject);
  check_heads(subject);
  const bool fixed = parallel.context_blocks > 0 || parallel.context == 1;
  if (config.reproducibility == Reproducibility::layout && !fixed &&
      subject.purpose == Purpose::train)
    refuse(subject, blocks_key,
           "auto with reproducibility: layout and {} = {}, so the bits would depend on context; "
           "use {} or a multiple of it, the same value in all runs that you compare",
           ranks_key, parallel.context, parallel.context);
}

void check_context_sums(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t ranks = parallel.context, local = parallel.blocks() / ranks;
  if (subject.config.reproducibility != Reproducibility::layout || parallel.blocks() == 1) return;
  const std::int64_t sharing = parallel.expert_data_ranks();
  if (local > 1 && sharing > 1)
    refuse(subject, "parallel.expert",
           "{} with reproducibility: layout and {} blocks of a sequence on each rank: the blocks "
           "that {} ranks send to an expert are not a subtree of the tree of sums; use auto, or "
           "parallel.context_blocks {}",
           parallel.expert, local, sharing, ranks);
  if (ranks == 1) return;
  if (!power_of_two(local))
    refuse(subject, blocks_key,
           "{} with reproducibility: layout: {} blocks on each rank do not fit one tree; use a "
           "power of two of them, as {} or {}",
           parallel.blocks(), local, ranks, 2 * ranks);
  if (!power_of_two(ranks) && parallel.data > 1 && parallel.shard() != ranks)
    refuse(subject, ranks_key,
           "{} with reproducibility: layout and parallel.data = {}: not a power of two, so the "
           "ranks of a sequence are not a subtree of the tree of sums; use parallel.zero 1 or more "
           "with zero_group {}, or parallel.data 1, or a power of two",
           ranks, parallel.data, ranks);
  check_order_of_sums(subject);
}

}  // namespace trireme::config
