// SPDX-License-Identifier: Apache-2.0
// Rules between the model, the batch and the parallel modes. parallel.data and
// parallel.tensor_blocks are resolved.
#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/ranges.h>

#include "runtime/config/batch_ramp.h"
#include "runtime/config/batch_slices.h"
#include "runtime/config/rules/rules.h"

namespace trireme::config {
namespace {

std::int64_t micro_batches(const Config& config) {
  return config.train.global_batch / config.train.micro_batch;
}

// Rows of the residual stream at once: of a micro-batch, or of a block of its sequences.
Extent rows_at_once(const Subject& subject) {
  const Extent& rows = subject.limits.rows;
  const std::int64_t blocks = subject.config.parallel.blocks();
  return {subject.config.train.micro_batch * rows.value / blocks,
          fmt::format("train.micro_batch * {}{}", rows.name,
                      blocks > 1 ? fmt::format(" / {} blocks of it", blocks) : "")};
}

// The number of tensor ranks or blocks must divide these.
std::vector<Extent> divided_by_blocks(const Subject& subject) {
  std::vector<Extent> divided = subject.limits.tensor;
  if (subject.limits.rows.value > 0) divided.push_back(rows_at_once(subject));
  return divided;
}

// `parts`, the value of `key`, must divide the model; suggests multiples of `unit`.
void check_divides(const Subject& subject, std::string_view key, std::int64_t parts,
                   std::int64_t unit) {
  const std::vector<Extent> divided = divided_by_blocks(subject);
  std::int64_t all = 0;
  for (const Extent& each : divided)
    all = std::gcd(all, each.value);
  for (const Extent& each : divided) {
    if (each.value % parts == 0) continue;
    auto fitting = near_divisors(all / unit, parts / unit);
    for (std::int64_t& value : fitting)
      value *= unit;
    refuse(subject, key, "{} does not divide {} = {}; use {}", parts, each.name, each.value,
           any_of(fitting));
  }
}

void check_tensor_chunks(const Subject& subject) {
  const Config& config = subject.config;
  constexpr std::string_view key = "parallel.tensor_chunks";
  const std::int64_t chunks = config.parallel.tensor_chunks;
  if (chunks == 1) return;
  const Extent rows = rows_at_once(subject);
  if (rows.value % chunks != 0)
    refuse(subject, key, "{} does not divide {} = {}; use {}", chunks, rows.name, rows.value,
           any_of(near_divisors(rows.value, chunks)));
}

void check_tensor(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  if (!subject.family().splits_tensor) {
    if (parallel.tensor > 1) {
      refuse(subject, "parallel.tensor",
             "{} with model.family: {}, whose layers are split over data and pipeline ranks only; "
             "use 1{}",
             parallel.tensor, config.model.family,
             subject.limits.axes.empty() ? "" : ", and parallel.spatial to share samples");
    }
    if (parallel.tensor_blocks > 1) {
      refuse(subject, "parallel.tensor_blocks",
             "{} has no effect with model.family: {}, only with {}; use auto or 1",
             parallel.tensor_blocks, config.model.family,
             subject.keys.families_with(Needs::tensor_split));
    }
    return;
  }
  check_divides(subject, "parallel.tensor", parallel.tensor, 1);
  const std::int64_t blocks = parallel.tensor_blocks;
  if (blocks % parallel.tensor != 0) {
    refuse(
        subject, "parallel.tensor_blocks",
        "{} blocks cannot be shared by parallel.tensor = {} ranks; use auto or a multiple of {}, "
        "or tensor {}",
        blocks, parallel.tensor, parallel.tensor, any_of(near_divisors(blocks, parallel.tensor)));
  }
  check_divides(subject, "parallel.tensor_blocks", blocks, parallel.tensor);
  check_tensor_chunks(subject);
  constexpr std::int64_t pack = 8;
  const Extent& gelu = subject.limits.gelu;
  const std::int64_t wide = gelu.value / blocks;
  if (config.device.fused_epilogues && wide % pack != 0) {
    refuse(subject, "device.fused_epilogues",
           "on needs blocks with a width that is a multiple of {}, but {} = {} in {} blocks makes "
           "{}; use off, or fewer blocks",
           pack, gelu.name, gelu.value, blocks, wide);
  }
}

void check_stages(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t length = subject.limits.layers;
  const std::int64_t stages = parallel.pipeline * parallel.chunks;
  if (parallel.pipeline > length) {
    refuse(subject, "parallel.pipeline",
           "{} stages for a model of {} layers, first and last included; use {} or fewer",
           parallel.pipeline, length, length);
  }
  if (stages > length) {
    refuse(subject, "parallel.chunks",
           "{} on each of {} stages for a model of {} layers, first and last included; use {} or "
           "fewer",
           parallel.chunks, parallel.pipeline, length, length / parallel.pipeline);
  }
  if (parallel.stage_layers.empty()) return;
  const std::int64_t sum =
      std::accumulate(parallel.stage_layers.begin(), parallel.stage_layers.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(parallel.stage_layers.size()) != stages || sum != length) {
    refuse(subject, "parallel.stage_layers",
           "{} numbers that add up to {}, for pipeline * chunks = {} stages and {} layers, first "
           "and last included; use {} numbers that add up to {}, or [] for a balanced cut",
           parallel.stage_layers.size(), sum, stages, length, stages, length);
  }
}

void check_chunks(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const bool interleaved = parallel.schedule == ScheduleKind::interleaved;
  if (interleaved && parallel.chunks == 1 && parallel.pipeline > 1) {
    refuse(subject, "parallel.chunks",
           "1 with parallel.schedule: interleaved; use 2 or more, or schedule 1f1b");
  }
}

// For the interleaved schedule, on every data rank.
void check_rounds(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  const BatchSlices slices = batch_slices(config);
  for (std::int64_t rank = 0; rank < parallel.data; ++rank) {
    const std::int64_t local = slices.of(rank).count;
    if (local % parallel.pipeline == 0) continue;
    const std::int64_t rounds = parallel.pipeline * parallel.data;
    refuse(subject, "parallel.schedule",
           "interleaved needs micro-batches per data-parallel rank in multiples of the {} stages, "
           "not {}; use train.global_batch {} or schedule 1f1b",
           parallel.pipeline, slices.equal() ? fmt::format("{}", local) : slices.to_string(),
           (micro_batches(config) / rounds + 1) * rounds * config.train.micro_batch);
  }
}

void check_pipeline(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  const ScheduleKind schedule = parallel.schedule;
  check_chunks(subject);
  check_stages(subject);
  if (schedule == ScheduleKind::interleaved) check_rounds(subject);
  if (schedule != ScheduleKind::zero_bubble) return;
  if (!subject.limits.splits_backward) {
    refuse(
        subject, "parallel.schedule",
        "zero-bubble with model.family: {}, whose layers do not split their backward; use gpipe, "
        "1f1b or interleaved",
        config.model.family);
  }
}

// Micro-batches are leaves of one binary tree; ranks with equally many fit it if their
// micro-batches, or with ZeRO 2 and 3 those of each ZeRO group, are whole subtrees
// (parallel/grad_reducer.h). Context-parallel ranks count as one.
bool aligned(std::int64_t batches, std::int64_t data, const ParallelConfig& parallel) {
  if (batches % data != 0) return false;
  const std::int64_t local = batches / data;
  if (parallel.zero < 2) return power_of_two(local) || data == 1;
  const std::int64_t group =
      parallel.zero_group == 0 ? data
                               : std::max<std::int64_t>(parallel.zero_group / parallel.context, 1);
  return group == data ? power_of_two(data) || local == 1 : power_of_two(group * local);
}

void check_reproducible(const Subject& subject) {
  const Config& config = subject.config;
  if (config.reproducibility != Reproducibility::layout) return;
  const std::int64_t tensor = config.parallel.tensor, blocks = config.parallel.tensor_blocks;
  if (tensor > 1 && !power_of_two(blocks / tensor)) {
    refuse(subject, "reproducibility",
           "layout: {} tensor blocks over {} ranks do not fit one tree; use "
           "parallel.tensor_blocks in a power of two times the ranks, or tensor 1",
           blocks, tensor);
  }
  const std::int64_t batches = micro_batches(config), data = config.parallel.data;
  const std::int64_t group = config.parallel.shard(), doubled = batch_slices(config).doubled();
  if (group < data && doubled % group != 0) {
    std::vector<std::int64_t> whole = near_divisors(std::gcd(data, doubled), group, 2);
    std::erase_if(whole, [](std::int64_t size) { return !power_of_two(size); });
    refuse(subject, "parallel.zero_group",
           "{} with reproducibility: layout and data ranks of {} micro-batches: groups mix ranks "
           "with more and fewer; use {}all",
           group, batch_slices(config).to_string(), whole.empty() ? "" : any_of(whole) + ", or ");
  }
  // Below ZeRO 2 the slices always fit the tree (batch_slices.h).
  if (config.parallel.zero < 2 || aligned(batches, data, config.parallel)) return;
  constexpr std::size_t all = 1 << 20;
  std::vector<std::int64_t> fitting = near_divisors(batches, data, 1, all);
  std::erase_if(fitting, [&](std::int64_t ranks) {
    const bool whole_groups =
        config.parallel.zero_group == 0 || ranks * config.parallel.context % group == 0;
    return !whole_groups || !aligned(batches, ranks, config.parallel);
  });
  refuse(subject, "reproducibility",
         "layout: {} micro-batches over parallel.data = {} ranks with parallel.zero: {}{} are not "
         "whole subtrees of one sum; use data {}, or zero 0 or 1",
         batches, data, config.parallel.zero,
         group < config.parallel.data_ranks() ? fmt::format(" in groups of {}", group) : "",
         any_of(fitting));
}

// The noise scale needs gradients of single micro-batches.
void check_noise(const Subject& subject) {
  const Config& config = subject.config;
  const TrainConfig& train = config.train;
  const std::int64_t every = train.noise_scale_every;
  if (every == 0) return;
  if (config.parallel.pipeline > 1 && subject.limits.ties) {
    refuse(
        subject, "train.noise_scale_every",
        "{} with parallel.pipeline: {}, where no rank has all gradients of a micro-batch for the "
        "tied token embedding; use 0, pipeline 1, or an untied head",
        every, config.parallel.pipeline);
  }
  if (micro_batches(config) < 2) {
    refuse(subject, "train.noise_scale_every",
           "{} with one micro-batch in train.global_batch = {}, but the measurement compares two "
           "batch sizes; use 0, or train.micro_batch {} or less",
           every, train.global_batch, std::max<std::int64_t>(train.global_batch / 2, 1));
  }
}

bool ramp_fits(const Config& config, std::int64_t size) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t unit = config.train.micro_batch * parallel.data;
  if (size % unit != 0) return false;
  const std::int64_t batches = size / config.train.micro_batch;
  if (parallel.schedule == ScheduleKind::interleaved && parallel.pipeline > 1 &&
      batches / parallel.data % parallel.pipeline != 0)
    return false;
  return config.reproducibility != Reproducibility::layout ||
         aligned(batches, parallel.data, parallel);
}

// The nearest sizes above and below that this layout allows.
std::vector<std::int64_t> ramp_neighbours(const Config& config, std::int64_t size) {
  const std::int64_t unit = config.train.micro_batch * config.parallel.data;
  std::vector<std::int64_t> sizes;
  for (std::int64_t below = size / unit * unit; below > 0 && sizes.empty(); below -= unit) {
    if (ramp_fits(config, below)) sizes.push_back(below);
  }
  for (std::int64_t above = (size / unit + 1) * unit; above <= config.train.global_batch;
       above += unit) {
    if (!ramp_fits(config, above)) continue;
    sizes.push_back(above);
    break;
  }
  return sizes;
}

// Checks each size against the layout; the largest is train.global_batch.
void check_ramp(const Subject& subject) {
  const Config& config = subject.config;
  const TrainConfig& train = config.train;
  constexpr std::string_view key = "train.batch_ramp";
  if (train.batch_ramp.empty()) {
    if (train.batch_ramp_form != RampForm::stepwise)
      refuse(subject, "train.batch_ramp_form",
             "has no effect without train.batch_ramp; set a ramp, or remove this key");
    return;
  }
  std::string problem;
  const auto points = ramp_points(train.batch_ramp, problem);
  if (!problem.empty()) refuse(subject, key, "{}", problem);
  if (points.back().size != train.global_batch)
    refuse(subject, key, "ends with {} samples, but train.global_batch is {}; make them equal",
           points.back().size, train.global_batch);
  if (points.back().step >= train.steps)
    refuse(subject, key,
           "grows to {} samples at step {}, which a run of train.steps = {} does not reach; use an "
           "earlier step, or more steps",
           points.back().size, points.back().step, train.steps);
  constexpr std::int64_t most_sizes = 4096;
  if (const std::int64_t sizes = sizes_of(points, train.batch_ramp_form); sizes > most_sizes)
    refuse(subject, key,
           "goes through {} sizes, but at most {} are allowed; use sizes with a larger common "
           "divisor, or batch_ramp_form: stepwise",
           sizes, most_sizes);
  const BatchRamp ramp(points, train.batch_ramp_form);
  for (const BatchRamp::Phase& phase : ramp.phases()) {
    const bool past = phase.size < ramp.size_at(subject.environment.steps_done);
    if (!past && !ramp_fits(config, phase.size)) {
      const bool between = std::ranges::find(points, phase.size, &BatchRamp::Point::size) ==
                           points.end();  // interpolated, not in the list
      refuse(subject, key,
             "{} samples from step {} on cannot be divided equally among parallel.data = {} ranks "
             "in micro-batches of {}{}; {} {}",
             phase.size, phase.first_step, config.parallel.data, train.micro_batch,
             config.reproducibility == Reproducibility::layout
                 ? " that are whole subtrees of one sum (reproducibility: layout)"
                 : "",
             between ? "it is between two sizes of the list: use batch_ramp_form: stepwise, or "
                       "sizes with only such values between them as"
                     : "use",
             any_of(ramp_neighbours(config, phase.size)));
    }
    if (train.noise_scale_every > 0 && phase.size < 2 * train.micro_batch)
      refuse(subject, key,
             "{} samples from step {} on are one micro-batch, but train.noise_scale_every compares "
             "two sizes; use {} or more",
             phase.size, phase.first_step, 2 * train.micro_batch);
  }
}

}  // namespace

void check_split(const Subject& subject) {
  check_tensor(subject);
  check_experts(subject);
  check_stages(subject);
}

void check_parallel(const Subject& subject) {
  const Config& config = subject.config;
  check_tensor(subject);
  check_experts(subject);
  check_pipeline(subject);
  check_reproducible(subject);
  check_noise(subject);
  check_ramp(subject);
  if (config.train.recompute == Recompute::selective && !subject.limits.selective_recompute) {
    refuse(subject, "train.recompute",
           "selective with model.family: {}, which has no attention or GELU to recompute; use none "
           "or full",
           config.model.family);
  }
}

}  // namespace trireme::config
