// SPDX-License-Identifier: Apache-2.0
// What the model, the batch and the parallel modes allow each other. parallel.data and
// parallel.virtual_tensor are resolved.
#include <algorithm>
#include <bit>
#include <numeric>

#include <fmt/ranges.h>

#include "runtime/config/rules.h"

namespace trireme::config {
namespace {

constexpr std::int64_t vocabulary_padding = 64;  // models/gpt pads its table to a multiple of this

bool power_of_two(std::int64_t value) {
  return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

std::int64_t micro_batches(const Config& config) {
  return config.train.global_batch / config.train.micro_batch;
}

void check_tensor(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  if (config.model.family != "gpt2") {
    if (parallel.tensor > 1) {
      refuse(subject, "parallel.tensor",
             "{} with model.family: {}; its layers are split over data and pipeline ranks only, "
             "use 1",
             parallel.tensor, config.model.family);
    }
    return;
  }
  const std::int64_t blocks = parallel.virtual_tensor;
  if (blocks % parallel.tensor != 0) {
    refuse(subject, "parallel.virtual_tensor",
           "{} blocks cannot be shared by parallel.tensor = {} ranks; use auto or a multiple of {}, "
           "or tensor {}",
           blocks, parallel.tensor, parallel.tensor, any_of(near_divisors(blocks, parallel.tensor)));
  }
  const std::string_view key = parallel.tensor == blocks ? "parallel.tensor" : "parallel.virtual_tensor";
  const auto must_divide = [&](std::int64_t value, std::string_view what) {
    if (value % blocks == 0) return;
    refuse(subject, key, "{} does not divide {} = {}; use {}", blocks, what, value,
           any_of(near_divisors(value, blocks)));
  };
  must_divide(config.model.heads, "model.heads");
  must_divide(config.model.hidden, "model.hidden");
  must_divide((config.model.vocabulary + vocabulary_padding - 1) / vocabulary_padding *
                  vocabulary_padding,
              "the vocabulary padded to a multiple of 64");
  must_divide(config.train.micro_batch * config.model.context,
              "train.micro_batch * model.context");
}

// Layers of the chain that a pipeline cuts: blocks, and one at each end.
std::int64_t chain_length(const ModelConfig& model) {
  if (model.family == "gpt2") return model.layers + 2;
  return std::accumulate(model.stages.begin(), model.stages.end(), std::int64_t{2});
}

void check_stages(const Subject& subject) {
  const ParallelConfig& parallel = subject.config.parallel;
  const std::int64_t length = chain_length(subject.config.model);
  const std::int64_t stages = parallel.pipeline * parallel.chunks;
  if (stages > length) {
    refuse(subject, parallel.chunks > 1 ? "parallel.chunks" : "parallel.pipeline",
           "pipeline * chunks = {} * {} stages for a model of {} layers (with its first and last); "
           "use {} stages or fewer",
           parallel.pipeline, parallel.chunks, length, length);
  }
  if (parallel.stage_layers.empty()) return;
  const std::int64_t sum = std::accumulate(parallel.stage_layers.begin(),
                                           parallel.stage_layers.end(), std::int64_t{0});
  if (static_cast<std::int64_t>(parallel.stage_layers.size()) != stages || sum != length) {
    refuse(subject, "parallel.stage_layers",
           "{} stages with {} layers in all; give {} numbers that add up to {}",
           parallel.stage_layers.size(), sum, stages, length);
  }
}

void check_pipeline(const Subject& subject) {
  const Config& config = subject.config;
  const ParallelConfig& parallel = config.parallel;
  const std::string& schedule = parallel.schedule;
  check_stages(subject);
  if (schedule != "interleaved" && parallel.chunks > 1) {
    refuse(subject, "parallel.chunks", "{} with parallel.schedule: {}; use interleaved, or chunks 1",
           parallel.chunks, schedule);
  }
  if (parallel.chunks > 1 && parallel.pipeline == 1) {
    refuse(subject, "parallel.chunks", "{} with one pipeline stage; use 1 or more stages",
           parallel.chunks);
  }
  const std::int64_t local = micro_batches(config) / parallel.data;
  if (schedule == "interleaved" && local % parallel.pipeline != 0) {
    refuse(subject, "parallel.schedule",
           "interleaved needs micro-batches per data-parallel rank in multiples of the {} stages, "
           "not {}; use train.global_batch {} or schedule 1f1b",
           parallel.pipeline, local,
           (local / parallel.pipeline + 1) * parallel.pipeline * parallel.data *
               config.train.micro_batch);
  }
  if (schedule != "zero-bubble") return;
  if (config.model.family != "gpt2") {
    refuse(subject, "parallel.schedule",
           "zero-bubble needs layers that split their backward, which those of {} do not; use "
           "1f1b, gpipe or interleaved",
           config.model.family);
  }
  if (config.train.recompute != "none") {
    refuse(subject, "train.recompute",
           "{} with parallel.schedule: zero-bubble, whose weight gradients come long after; use "
           "none, or schedule 1f1b",
           config.train.recompute);
  }
  if (parallel.zero >= 2) {
    refuse(subject, "parallel.zero",
           "{} with parallel.schedule: zero-bubble, which keeps gradients of several micro-batches "
           "apart; use 0 or 1, or schedule 1f1b",
           parallel.zero);
  }
}

// Micro-batches are leaves of one binary tree; a layout fits when each rank's are whole subtrees
// (parallel/grad_reducer.h).
bool aligned(std::int64_t batches, std::int64_t data, std::int64_t zero) {
  if (batches % data != 0) return false;
  const std::int64_t local = batches / data;
  return zero >= 2 ? power_of_two(data) || local == 1 : power_of_two(local) || data == 1;
}

void check_reproducible(const Subject& subject) {
  const Config& config = subject.config;
  if (config.reproducibility != "layout") return;
  const std::int64_t tensor = config.parallel.tensor, blocks = config.parallel.virtual_tensor;
  if (tensor > 1 && !power_of_two(blocks / tensor)) {
    refuse(subject, "reproducibility",
           "layout: {} tensor blocks over {} ranks do not fit one tree; use "
           "parallel.virtual_tensor in a power of two times the ranks, or tensor 1",
           blocks, tensor);
  }
  const std::int64_t batches = micro_batches(config), data = config.parallel.data;
  if (aligned(batches, data, config.parallel.zero)) return;
  std::vector<std::int64_t> fitting;
  for (std::int64_t ranks = 1; ranks <= batches; ++ranks) {
    if (aligned(batches, ranks, config.parallel.zero)) fitting.push_back(ranks);
  }
  refuse(subject, "reproducibility",
         "layout: {} micro-batches over {} data-parallel ranks do not fit one tree; use {} ranks, "
         "or micro-batches in a power of two times the ranks",
         batches, data, any_of(fitting));
}

}  // namespace

void check_parallel(const Subject& subject) {
  const Config& config = subject.config;
  check_tensor(subject);
  check_pipeline(subject);
  check_reproducible(subject);
  if (config.train.ema_decay > 0 && config.parallel.zero >= 3) {
    refuse(subject, "train.ema_decay",
           "{} with parallel.zero: 3, where no rank has whole parameters; use 0, or zero 2",
           config.train.ema_decay);
  }
  if (config.train.recompute == "selective" && config.model.family != "gpt2") {
    refuse(subject, "train.recompute",
           "selective recomputes attention and GELU, which {} has not; use none or full",
           config.model.family);
  }
}

}  // namespace trireme::config
