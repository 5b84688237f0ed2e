// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/fields.h"

#include <algorithm>

namespace trireme::config {
namespace {

constexpr std::int64_t many = 1'000'000'000'000;
constexpr double year_of_minutes = 525'600;
constexpr double any_size = 1e6;
constexpr Condition on_cuda{"device.type", "cuda"};
constexpr Condition gpt2{"model.family", "gpt2"};
constexpr Condition resnet{"model.family", "resnet"};
constexpr Condition adamw{"optimizer.name", "adamw"};
constexpr Condition sgd{"optimizer.name", "sgd"};
constexpr Condition fp16{"precision", "fp16"};
// Above it the gradient of the loss itself overflows in f16; powers of two up to it are exact.
constexpr double largest_loss_scale = 16'777'216;
constexpr Condition wsd{"lr_schedule.name", "wsd"};
constexpr Unbuilt one_rank{"1", "this version splits over data, tensor and pipeline only"};
// [0, 1): shares and decay rates.
constexpr NumberRange below_one{.low = 0, .high = 1, .high_is_open = true};

// The key is spelled by the member it sets, so the two cannot differ.
#define FIELD(path, ...)                                                     \
  Field {                                                                    \
#path, [](Config & config) -> Slot { return &config.path; }, __VA_ARGS__ \
  }

std::vector<Field> run_and_device_fields() {
  return {
      FIELD(run.directory, Text{.may_be_empty = false},
            "where the run writes its config, metrics and weights"),
      FIELD(run.seed, Free{}, "key of every random number: init, dropout, shuffle, augmentation"),
      FIELD(run.deadline_minutes, NumberRange{.high = year_of_minutes},
            "stop with a checkpoint and exit code 75 after this long; 0 = no deadline"),
      FIELD(device.type, Choices{{"cpu", "cuda", "auto"}},
            "where to compute; auto = cuda when the build has it and a GPU is there"),
      FIELD(device.share, Free{}, "several ranks may take turns on one GPU", on_cuda),
      FIELD(device.graphs, Choices{{"off", "layer", "step"}},
            "record each layer's passes, or the whole step, as CUDA graphs and replay them",
            on_cuda),
      FIELD(device.fused_epilogues, Choices{{"off", "on"}},
            "products also compute the GELU beside them and bias gradients", on_cuda),
      FIELD(device.autotune, Text{.may_be_empty = false},
            "file of measured algorithms of products; what it lacks is measured after the last "
            "step; off = the library's suggestions",
            on_cuda),
      FIELD(precision, Choices{{"auto", "fp32", "tf32", "bf16", "fp16", "fp8"}},
            "compute precision; master weights stay fp32; tf32 = fp32 with TF32 products, fp8 = "
            "bf16 with 8-bit products in transformer blocks; auto = bf16 where it is native, else "
            "fp32"),
      FIELD(reproducibility, Choices{{"fast", "run", "layout"}},
            "fast; run = same config and layout give the same bits; layout = the same bits on "
            "every layout"),
  };
}

std::vector<Field> model_fields() {
  return {
      FIELD(model.family, Choices{{"gpt2", "resnet"}}, "which model to build"),
      FIELD(model.layers, IntegerRange{1, 1024}, "transformer blocks", gpt2),
      FIELD(model.hidden, IntegerRange{1, 65536}, "width of the residual stream", gpt2),
      FIELD(model.heads, IntegerRange{1, 1024}, "attention heads; divides model.hidden", gpt2),
      FIELD(model.context, IntegerRange{1, 1 << 20}, "tokens per sequence", gpt2),
      FIELD(model.vocabulary, IntegerRange{2, 2147483647}, "token ids; 256 = bytes", gpt2),
      FIELD(model.dropout, below_one, "share of activations dropped", gpt2),
      FIELD(model.init_deviation, (NumberRange{.low = 0, .high = 10, .low_is_open = true}),
            "of the normal that matrices are drawn from; 0.02 as published, about 1/sqrt(hidden) "
            "for small models",
            gpt2),
      FIELD(model.position_init, Choices{{"normal", "sinusoidal"}},
            "how learned positions start: as published, or as sine waves (small models learn much "
            "faster)",
            gpt2),
      FIELD(model.block, Choices{{"basic", "bottleneck"}}, "residual block", resnet),
      FIELD(model.stages, (IntegerRange{1, 1000, {1, 8}}),
            "blocks per stage; each stage after the first halves the image", resnet),
      FIELD(model.width, IntegerRange{1, 8192},
            "channels of the first stage; doubles with each stage", resnet),
      FIELD(model.stem, Choices{{"imagenet", "small"}},
            "7x7 stride 2 and pooling, or 3x3 for small images", resnet),
      FIELD(model.image_size, IntegerRange{1, 16384}, "height and width of the images in pixels",
            resnet),
      FIELD(model.channels, IntegerRange{1, 64}, "channels of the images", resnet),
      FIELD(model.classes, IntegerRange{2, 10'000'000}, "labels", resnet),
  };
}

std::vector<Field> data_fields() {
  return {
      FIELD(data.path, Text{}, "directory or file of packed shards to train on"),
      FIELD(data.validation_path, Text{}, "packed shards to evaluate on; empty = no evaluation"),
      FIELD(data.workers, IntegerRange{1, 256}, "reader threads per rank"),
      FIELD(data.prefetch, IntegerRange{1, 1024}, "batches read ahead"),
      FIELD(data.shuffle, Free{}, "visit the samples in a new order each epoch"),
      FIELD(data.last_batch, Choices{{"drop", "pad"}}, "what to do with an incomplete last batch"),
      FIELD(data.crop_padding, IntegerRange{0, 1024},
            "random crop after padding by this many pixels", resnet),
      FIELD(data.flip, Free{}, "mirror half of the images", resnet),
      FIELD(data.mean, (NumberRange{.low = -any_size, .high = any_size, .items = {0, 64}}),
            "subtracted per channel from pixels in 0..1", resnet),
      FIELD(data.deviation, (NumberRange{.high = any_size, .low_is_open = true, .items = {0, 64}}),
            "divides each channel after the mean", resnet),
  };
}

std::vector<Field> parallel_fields() {
  return {
      FIELD(parallel.search, Free{},
            "let the planner choose data, tensor, pipeline, schedule, chunks, zero, sequence, "
            "train.recompute and, where results allow, train.micro_batch; needs parallel.hardware"),
      FIELD(parallel.hardware, Text{},
            "description of the machine for plans and search, see configs/hardware"),
      FIELD(parallel.data, (IntegerRange{1, 1 << 20, {}, "auto"}),
            "data-parallel ranks; auto = the ranks that the other axes leave"),
      FIELD(parallel.tensor, IntegerRange{1, 65536}, "ranks that share each layer's matrices"),
      FIELD(parallel.pipeline, IntegerRange{1, 65536}, "pipeline stages"),
      FIELD(parallel.context, IntegerRange{1, 65536}, "ranks that share a sequence", {}, one_rank),
      FIELD(parallel.expert, IntegerRange{1, 65536}, "expert-parallel ranks", {}, one_rank),
      FIELD(parallel.zero, IntegerRange{0, 3},
            "what the data-parallel ranks share out: 1 optimizer state, 2 also gradients, 3 also "
            "parameters"),
      FIELD(parallel.sequence, Free{},
            "split norms, dropout and residuals over the tensor ranks, by rows", gpt2),
      FIELD(parallel.schedule, Choices{{"gpipe", "1f1b", "interleaved", "zero-bubble"}},
            "order of work in the pipeline"),
      FIELD(parallel.chunks, IntegerRange{1, 1024},
            "runs of layers per pipeline stage; more than 1 with interleaved"),
      FIELD(parallel.stage_layers, (IntegerRange{1, 65536, {0, 65536}}),
            "layers of each stage (with chunks: of each virtual stage), embedding and head "
            "included; empty = balanced by FLOPs"),
      FIELD(parallel.virtual_tensor, (IntegerRange{1, 1024, {}, "auto"}),
            "fixed blocks that layers compute in, a multiple of tensor: equal bits for every "
            "divisor; auto = tensor"),
      FIELD(parallel.reducer, Choices{{"overlapped", "inline"}},
            "reduce gradients during backward or after it; equal bits"),
      FIELD(parallel.bucket_megabytes, (NumberRange{.high = 65536, .low_is_open = true}),
            "gradients reduced per collective"),
      FIELD(parallel.check_collectives, Free{},
            "compare every collective across ranks before it runs (slow)"),
      FIELD(parallel.watch_seconds, NumberRange{.high = any_size},
            "longest wait for other ranks before the job ends with a report; 0 = for ever"),
  };
}

std::vector<Field> comm_fields() {
  return {
      FIELD(comm.min_ctas, IntegerRange{0, 64},
            "fewest thread blocks of a call of NCCL; 0 = NCCL's choice", on_cuda),
      FIELD(comm.max_ctas, IntegerRange{0, 64},
            "most thread blocks of a call of NCCL; products beside it leave it as many "
            "multiprocessors; 0 = NCCL's choice",
            on_cuda),
  };
}

std::vector<Field> train_fields() {
  return {
      FIELD(train.steps, IntegerRange{1, many}, "optimizer steps"),
      FIELD(train.global_batch, IntegerRange{1, 1 << 30}, "samples per step over all ranks"),
      FIELD(train.micro_batch, IntegerRange{1, 1 << 20}, "samples per forward pass of one rank"),
      FIELD(train.initial_weights, Text{},
            "weights to begin with: a safetensors file, an index of several, a directory of either "
            "or a checkpoint, of any layout; empty = random"),
      FIELD(train.recompute, Choices{{"none", "selective", "full"}},
            "activations that backward computes anew instead of keeping them"),
      FIELD(train.clip_norm, NumberRange{.high = any_size},
            "largest global gradient norm; 0 = no clipping"),
      FIELD(train.label_smoothing, below_one, "target probability spread over all classes"),
      FIELD(train.ema_decay, below_one, "decay of the averaged weights; 0 = no average"),
      FIELD(train.eval_every, IntegerRange{0, many},
            "steps between evaluations; 0 = only at the end"),
      FIELD(train.eval_batches, IntegerRange{0, many},
            "global batches per evaluation; 0 = the whole validation set"),
      FIELD(train.log_every, IntegerRange{1, many}, "steps between console lines"),
      FIELD(train.non_finite_limit, IntegerRange{1, 1'000'000},
            "steps in a row with a NaN or infinite loss or gradient, each skipped, before the run "
            "stops (exit code 6)"),
      FIELD(train.spike_zscore, NumberRange{.high = any_size},
            "skip a batch whose loss lies this many deviations above the running mean; 0 = never"),
      FIELD(train.spike_window, IntegerRange{2, many},
            "steps that the running mean and deviation cover, and before which nothing is skipped"),
      FIELD(train.divergence_check_every, IntegerRange{0, many},
            "steps between comparisons of the replicas' weights, of which one begins and one ends "
            "a run (exit code 5 where they differ); 0 = never"),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      FIELD(optimizer.name, Choices{{"adamw", "sgd"}}, "update rule"),
      FIELD(optimizer.learning_rate, NumberRange{.high = 1000}, "peak learning rate"),
      FIELD(optimizer.betas,
            (NumberRange{.low = 0, .high = 1, .high_is_open = true, .items = {2, 2}}),
            "decay of the first and second moment", adamw),
      FIELD(optimizer.epsilon, (NumberRange{.high = 1, .low_is_open = true}),
            "added to the root of the second moment", adamw),
      FIELD(
          optimizer.weight_decay, NumberRange{.high = 1000},
          "decoupled for adamw; for weight matrices, filters and token embeddings, not for biases, "
          "norms and position embeddings"),
      FIELD(optimizer.momentum, below_one, "decay of the velocity", sgd),
      FIELD(optimizer.nesterov, Free{}, "look ahead along the velocity", sgd),
      FIELD(lr_schedule.name, Choices{{"constant", "linear", "cosine", "wsd"}},
            "course of the rate after warm-up"),
      FIELD(lr_schedule.warmup_steps, IntegerRange{0, many}, "steps of linear rise from zero"),
      FIELD(lr_schedule.minimum_ratio, NumberRange{.high = 1}, "last rate as a share of the peak"),
      FIELD(lr_schedule.decay_fraction, (NumberRange{.high = 1, .low_is_open = true}),
            "share of the run, at its end, that decays", wsd),
      FIELD(loss_scale.initial, (NumberRange{.high = largest_loss_scale, .low_is_open = true}),
            "factor on the gradients of the first step", fp16),
      FIELD(loss_scale.growth_interval, IntegerRange{1, 1 << 24},
            "steps without overflow after which the scale grows", fp16),
      FIELD(loss_scale.factor, (NumberRange{.low = 1, .high = 65536, .low_is_open = true}),
            "by which it grows, and falls when a step overflows and is skipped", fp16),
      FIELD(loss_scale.minimum, (NumberRange{.high = largest_loss_scale, .low_is_open = true}),
            "below this it does not fall; overflows then count for train.non_finite_limit", fp16),
  };
}

std::vector<Field> checkpoint_and_telemetry_fields() {
  return {
      FIELD(checkpoint.every_steps, IntegerRange{0, many}, "steps between checkpoints; 0 = none"),
      FIELD(checkpoint.every_minutes, NumberRange{.high = year_of_minutes},
            "minutes between checkpoints; 0 = none"),
      FIELD(checkpoint.keep, IntegerRange{1, 1'000'000}, "newest checkpoints kept"),
      FIELD(checkpoint.keep_every, IntegerRange{0, many},
            "also keep those whose step is a multiple of this; 0 = none"),
      FIELD(checkpoint.failed_limit, IntegerRange{1, 1'000'000},
            "saves in a row that may fail; the last of them ends the run (exit code 7)"),
      FIELD(checkpoint.async, Free{}, "write checkpoints while training goes on"),
      FIELD(telemetry.trace, Text{}, "steps to trace, as first-last; empty = none", {},
            Unbuilt{"\"\""}),
      FIELD(telemetry.tensorboard, Free{}, "write TensorBoard event files", {}, Unbuilt{"false"}),
      FIELD(telemetry.prometheus, Free{}, "write a Prometheus text file", {}, Unbuilt{"false"}),
  };
}

#undef FIELD

std::vector<Field> build_table() {
  std::vector<Field> table;
  for (auto part : {run_and_device_fields, model_fields, data_fields, parallel_fields, comm_fields,
                    train_fields, optimizer_fields, checkpoint_and_telemetry_fields}) {
    std::ranges::move(part(), std::back_inserter(table));
  }
  return table;
}

}  // namespace

std::string_view Field::section() const {
  const auto dot = key.find('.');
  return dot == std::string_view::npos ? std::string_view{} : key.substr(0, dot);
}

std::string_view Field::name() const {
  const auto dot = key.find('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

std::span<const Field> all_fields() {
  static const std::vector<Field> table = build_table();
  return table;
}

const Field* find_field(std::string_view key) {
  const auto found = std::ranges::find(all_fields(), key, &Field::key);
  return found == all_fields().end() ? nullptr : &*found;
}

bool is_section(std::string_view name) {
  return !name.empty() &&
         std::ranges::find(all_fields(), name, &Field::section) != all_fields().end();
}

std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const Field& field : all_fields()) {
    if (field.section() == section) {
      names.push_back(field.name());
    } else if (section.empty() && (names.empty() || names.back() != field.section())) {
      names.push_back(field.section());
    }
  }
  return names;
}

}  // namespace trireme::config
