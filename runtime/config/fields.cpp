// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/config/field_rows.h"

namespace trireme::config {
namespace {

// The optimizers that read a key.
Condition optimizers_with(bool OptimizerTraits::*key) {
  Condition condition{"optimizer.name", {}};
  for (const OptimizerTraits& optimizer : optimizer_table)
    if (optimizer.*key) condition.values.push_back(optimizer.name);
  return condition;
}
const Condition adafactor{"optimizer.name", {"adafactor"}};
const Condition lars{"optimizer.name", {"lars"}};
const Condition sgd{"optimizer.name", {"sgd"}};
const Condition fp16{"precision", {"fp16"}};
const Condition fp8{"precision", {"fp8"}};
// Above it the gradient of the loss itself overflows in f16; powers of two up to it are exact.
constexpr double largest_loss_scale = 16'777'216;
const Condition wsd{"lr_schedule.name", {"wsd"}};
const Condition huber{"train.loss", {"huber"}};
const Condition polynomial{"lr_schedule.name", {"polynomial"}};
const Condition multistep{"lr_schedule.name", {"multistep"}};

std::vector<Field> run_and_device_fields() {
  return {
      FIELD(run.directory, Text{.may_be_empty = false},
            "where the run writes its config, metrics and weights"),
      FIELD(run.seed, Free{},
            "random seed of initial weights, dropout and sample order; clock = drawn at the first "
            "start")
          .changing(Effect::state),
      FIELD(run.deadline_minutes, NumberRange{.high = year_of_minutes},
            "stop with a checkpoint and exit code 75 after this long; 0 = no deadline"),
      FIELD(device.type, one_of<DeviceChoice>(),
            "device to compute on; auto = cuda if the build has it and a GPU is present")
          .changing(Effect::layout),
      FIELD(device.share, Free{}, "several ranks may take turns on one GPU", on_cuda),
      FIELD(device.graphs, one_of<GraphMode>(),
            "record each layer's passes, or the whole step, as CUDA graphs and replay them",
            on_cuda),
      FIELD(device.fused_epilogues, Choices{{"off", "on"}},
            "fuse GELU and bias gradients into matmuls, and gradient sums into convolutions",
            on_cuda),
      FIELD(device.autotune, Text{.may_be_empty = false},
            "file of measured matmul algorithms, and of epilogues that are faster fused; missing "
            "ones are measured before the first step; off = the library's heuristics",
            on_cuda),
      FIELD(precision, one_of<Precision>(),
            "compute precision; master weights stay fp32; tf32 = fp32 with TF32 matmuls, fp8 = "
            "bf16 with 8-bit matmuls in transformer blocks; auto = bf16 where it is native, else "
            "fp32"),
      FIELD(
          fp8_recipe, one_of<Fp8Recipe>(),
          "what shares a scale in 8-bit matmuls: tensor = an operand; blockwise = 128 values along "
          "the summed axis, of weights 128 x 128 (Hopper); mxfp8 = 32 values (Blackwell); the CPU "
          "has all",
          fp8),
      FIELD(reproducibility, one_of<Reproducibility>(),
            "fast; run = same config and layout give the same bits; layout = bitwise "
            "identical across parallel layouts"),
  };
}

// The values are the table's: it knows the families.
std::vector<Field> model_fields() {
  return {FIELD(model.family, Choices{}, "which model to build")};
}

std::vector<Field> train_fields() {
  return {
      FIELD(train.steps, IntegerRange{1, many}, "optimizer steps").changing(Effect::step),
      FIELD(train.epochs, NumberRange{.high = 1e6},
            "passes over the training data, instead of train.steps; 0 = none")
          .changing(Effect::step),
      FIELD(train.global_batch, IntegerRange{1, 1 << 30}, "samples per step over all ranks")
          .changing(Effect::samples),
      FIELD(train.micro_batch, IntegerRange{1, 1 << 20}, "samples per forward pass of one rank")
          .changing(Effect::layout),
      FIELD(train.batch_ramp, texts,
            "growing global batch: a list of STEP:SIZE; from STEP on (counted from 0) a global "
            "batch has SIZE samples; the last size is train.global_batch")
          .changing(Effect::samples),
      FIELD(train.batch_ramp_form, one_of<RampForm>(),
            "between two entries of train.batch_ramp: stepwise = the earlier size; linear = "
            "interpolated, in multiples of the greatest common divisor of all sizes")
          .changing(Effect::samples),
      FIELD(train.context_ramp, texts,
            "growing sequences: a list of STEP:TOKENS; from STEP on (counted from 0) sequences "
            "have TOKENS tokens; the last is model.context. Longer rows are cut into such "
            "sequences, so a step keeps its number of tokens")
          .changing(Effect::samples),
      FIELD(train.initial_weights, Text{},
            "initial weights: a safetensors file, an index of several files, a directory with "
            "either, or a checkpoint of any layout; empty = random. Keys of the model section that "
            "the config does not set are taken from the run of the weights")
          .changing(Effect::extent),
      FIELD(train.initial_skip, texts,
            "patterns (* = anything) over the names of tensors in train.initial_weights that are "
            "not read, such as those that the model lacks"),
      FIELD(train.initial_reinitialise, texts,
            "patterns over the model's parameters that keep their fresh values, such as a head of "
            "another size: [\"classifier.*\"]"),
      FIELD(train.freeze, texts,
            "patterns over the model's parameters that are not trained, such as [\"embedding.*\", "
            "\"blocks.[0-5].*\"]; running statistics still follow the data")
          .changing(Effect::state),
      FIELD(train.recompute, one_of<Recompute>(),
            "activations that the backward pass recomputes instead of keeping them")
          .changing(Effect::place),
      FIELD(train.row_tile, IntegerRange{0, 1 << 30},
            "rows at a time in MLPs and language heads, a divisor of the rows of a micro-batch on "
            "a rank; backward computes again what lies between, so that long sequences need "
            "little memory. 0 = all rows")
          .changing(Effect::rounding),
  };
}

// Losses, evaluations and checks of a step.
std::vector<Field> measure_fields() {
  return {
      FIELD(train.clip_norm, NumberRange{.high = any_size},
            "largest global gradient norm; 0 = no clipping")
          .changing(Effect::step),
      FIELD(train.loss, one_of<LossChoice>(),
            "loss of a model that predicts values, of their errors: mse = squared; mae = absolute; "
            "huber = absolute beyond huber_delta; auto = mse. Of classes: auto = cross-entropy; of "
            "pixels dice_cross_entropy = half of it, half the dice loss without the first class")
          .changing(Effect::step),
      FIELD(train.huber_delta, (NumberRange{.high = 1e9, .low_is_open = true}),
            "largest error whose loss is half its square; beyond, the loss is linear", huber)
          .changing(Effect::step),
      FIELD(train.label_smoothing, below_one,
            "share of the target probability spread over all classes")
          .changing(Effect::step),
      FIELD(train.z_loss, NumberRange{.high = 1},
            "weight of z-loss, the squared logarithm of the softmax's denominator, in the training "
            "loss; keeps logits from drifting (published: 1e-4)")
          .changing(Effect::step),
      FIELD(train.ema_decay, below_one, "decay of the averaged weights; 0 = no average"),
      FIELD(train.eval_every, IntegerRange{0, many},
            "steps between evaluations; 0 = only at the end")
          .changing(Effect::report),
      FIELD(train.eval_every_samples, IntegerRange{0, many},
            "instead of train.eval_every: evaluate after each step whose samples reach or pass a "
            "multiple of this; 0 = none")
          .changing(Effect::report),
      FIELD(train.eval_batches, IntegerRange{0, many},
            "global batches per evaluation, the first of the validation set; 0 = all of it")
          .changing(Effect::report),
      FIELD(train.eval_overlap, below_one,
            "evaluate whole samples, larger than the model's, in windows that overlap by at least "
            "this share along each axis, and average logits by a Gaussian; 0 = off",
            {}, Needs::fields)
          .changing(Effect::report),
      FIELD(train.stop_at, Free{},
            "{metric: NAME, below: X} or {metric: NAME, above: X}: the run ends at the first "
            "evaluation whose eval_loss, accuracy, f1, f1_micro, auc, r2, mae, vrmse, mean_iou or "
            "mean_dice passes X; {} = never")
          .changing(Effect::extent),
      FIELD(train.patience, IntegerRange{0, many},
            "evaluations in a row behind the best (checkpoint.keep_best) that end the run; 0 = "
            "never")
          .changing(Effect::extent),
      FIELD(train.log_every, IntegerRange{1, many}, "steps between console lines")
          .changing(Effect::report),
      FIELD(train.non_finite_limit, IntegerRange{1, 1'000'000},
            "consecutive steps with a NaN or infinite loss or gradient, all skipped, after which "
            "the run stops (exit code 6)")
          .changing(Effect::report),
      FIELD(train.spike_zscore, NumberRange{.high = any_size},
            "skip a batch whose loss lies this many standard deviations above the running mean; 0 "
            "= never"),
      FIELD(train.spike_window, IntegerRange{2, many},
            "steps in the running mean and standard deviation; no step before that is skipped"),
      FIELD(train.divergence_check_every, IntegerRange{0, many},
            "steps between comparisons of the replicas' weights, also done at the start and at the "
            "end of a run (exit code 5 if they differ); 0 = never")
          .changing(Effect::report),
      FIELD(train.noise_scale_every, IntegerRange{0, many},
            "steps between measurements of the gradient noise scale: the batch size beyond which a "
            "step gains little (McCandlish et al., 2018); 0 = never")
          .changing(Effect::rounding),
  };
}

std::vector<Field> lora_fields() {
  return {
      FIELD(lora.rank, IntegerRange{0, 4096},
            "LoRA: rank of the trained factors; other weights are frozen, but for those of "
            "lora.modules_to_save and train.initial_reinitialise; 0 = all weights are trained"),
      FIELD(lora.alpha, (NumberRange{.high = 1e6, .low_is_open = true}),
            "LoRA: the product of the factors is scaled by alpha / rank"),
      FIELD(lora.rslora, Free{}, "LoRA: scaled by alpha / sqrt(rank) instead"),
      FIELD(lora.dropout, below_one, "LoRA: dropout of the factors' input"),
      FIELD(lora.targets, texts,
            "LoRA: linear layers with factors in each block: qkv, output (attention), expand, "
            "contract (the MLP's up and down projection); with factors of their own query, key, "
            "value instead of qkv, and of a gated MLP gate, up instead of expand"),
      FIELD(lora.modules_to_save, texts,
            "LoRA: patterns over the model's parameters that train whole beside the factors, from "
            "their loaded values, such as [\"classifier.*\"]"),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      FIELD(optimizer.name, one_of<OptimizerKind>(),
            "update rule; adafactor: as in T5, clipped at 1, no first moment; muon: adamw for all "
            "but hidden matrices and filters")
          .changing(Effect::state),
      FIELD(optimizer.learning_rate, NumberRange{.high = 1000}, "peak learning rate"),
      FIELD(optimizer.betas,
            (NumberRange{.low = 0, .high = 1, .high_is_open = true, .items = {2, 2}}),
            "decay of the first and second moment; lion: weight of the old momentum in the step, "
            "and decay of the momentum (published: 0.9 and 0.99)",
            optimizers_with(&OptimizerTraits::betas)),
      FIELD(optimizer.epsilon, (NumberRange{.high = 1, .low_is_open = true}),
            "added to the root of the second moment", optimizers_with(&OptimizerTraits::epsilon)),
      FIELD(optimizer.weight_decay, NumberRange{.high = 1000},
            "decoupled for adafactor, adamw, lion and muon, part of the direction for the others; "
            "for weight matrices, filters and token embeddings, not for biases, norms and position "
            "embeddings"),
      FIELD(optimizer.momentum, below_one,
            "decay of the momentum; muon: for hidden matrices (published: 0.95)",
            optimizers_with(&OptimizerTraits::momentum)),
      FIELD(optimizer.nesterov, Free{}, "Nesterov momentum", sgd),
      FIELD(optimizer.trust_coefficient, (NumberRange{.high = 1000, .low_is_open = true}),
            "LARS: ratio of a tensor's update to its norm at learning rate 1", lars),
      FIELD(
          optimizer.scale_parameter, Free{},
          "multiply a tensor's learning rate by the root mean square of its values, at least 0.001",
          adafactor),
      FIELD(optimizer.groups, texts,
            "parameters with shares of the learning rate and of the weight decay: a list of "
            "\"PATTERN: rate=X decay=Y\" with one or both; the last that matches counts. Decay=1 "
            "also decays biases and norms"),
      FIELD(optimizer.layer_decay, (NumberRange{.high = 1, .low_is_open = true}),
            "learning rate of each block as a share of the next one's: block i of L has this to "
            "the power L + 1 - i, what comes before L + 1, what follows 0 (published: 0.65 to "
            "0.85)"),
      FIELD(lr_schedule.name, one_of<LrDecay>(),
            "rate after warm-up, as a share of learning_rate: with r = "
            "minimum_ratio and p = (n - 1 - w) / (steps - 1 - w) at step n, cosine is "
            "r + (1 - r) (1 + cos(pi p)) / 2, linear is 1 - (1 - r) p, polynomial is "
            "r + (1 - r) (1 - p)^power, exponential is r^p, inverse_sqrt is sqrt(w / n) and at "
            "least r, wsd is 1 and falls "
            "linearly to r over the last decay_fraction of the steps, and multistep is given by "
            "factors"),
      FIELD(lr_schedule.warmup_steps, IntegerRange{0, many},
            "steps w of linear warm-up: step n, counted from 1, has learning_rate n / w up to step "
            "w"),
      FIELD(lr_schedule.warmup_fraction, NumberRange{.high = 1},
            "warm-up as a share of all steps, instead of lr_schedule.warmup_steps; 0 = none"),
      FIELD(lr_schedule.minimum_ratio, NumberRange{.high = 1}, "last rate as a share of the peak"),
      FIELD(lr_schedule.decay_fraction, (NumberRange{.high = 1, .low_is_open = true}),
            "share of the steps, at the end of the run, over which the rate decays", wsd),
      FIELD(lr_schedule.power, (NumberRange{.high = 100, .low_is_open = true}),
            "exponent of the part of the decay that is left", polynomial),
      FIELD(
          lr_schedule.factors, texts,
          "rates as shares of learning_rate, as \"STEP:FACTOR\" with ascending steps: from STEP on "
          "(counted from 0) the share is FACTOR, before the first it is 1; each replaces the one "
          "before. Steps that a run does not reach change nothing",
          multistep),
      FIELD(loss_scale.initial, (NumberRange{.high = largest_loss_scale, .low_is_open = true}),
            "loss scale of the first step", fp16),
      FIELD(loss_scale.growth_interval, IntegerRange{1, 1 << 24},
            "steps without overflow after which the scale grows", fp16),
      FIELD(loss_scale.factor, (NumberRange{.low = 1, .high = 65536, .low_is_open = true}),
            "factor of growth, and of decrease when a step overflows and is skipped", fp16),
      FIELD(loss_scale.minimum, (NumberRange{.high = largest_loss_scale, .low_is_open = true}),
            "smallest scale; overflows at it count for train.non_finite_limit", fp16),
  };
}

std::vector<Field> checkpoint_fields() {
  return {
      FIELD(checkpoint.every_steps, IntegerRange{0, many}, "steps between checkpoints; 0 = none"),
      FIELD(checkpoint.every_minutes, NumberRange{.high = year_of_minutes},
            "minutes between checkpoints; 0 = none"),
      FIELD(checkpoint.keep, IntegerRange{1, 1'000'000}, "newest checkpoints kept"),
      FIELD(checkpoint.keep_every, IntegerRange{0, many},
            "also keep those whose step is a multiple of this; 0 = none"),
      FIELD(checkpoint.keep_best, Text{},
            "metric (see train.stop_at) whose best evaluation's checkpoint is kept, for `--best`"),
      FIELD(checkpoint.failed_limit, IntegerRange{1, 1'000'000},
            "consecutive failed saves after which the run stops (exit code 7)"),
      FIELD(checkpoint.async, Free{}, "write checkpoints while training continues"),
      FIELD(checkpoint.in_memory_every_steps, IntegerRange{0, many},
            "steps between checkpoints in host memory, with a copy on another host; a restart "
            "after a failure resumes from them; 0 = none"),
      FIELD(checkpoint.memory_directory, Free{},
            "directory of the checkpoints in memory on every host, on a memory file system"),
  };
}

}  // namespace

bool Condition::allows(std::string_view value) const {
  return std::ranges::find(values, value) != values.end();
}

std::string Condition::any() const {
  return fmt::format("{}", fmt::join(values, " or "));
}

std::string_view Field::section() const {
  const std::string_view whole = key;
  const auto dot = whole.find('.');
  return dot == std::string_view::npos ? std::string_view{} : whole.substr(0, dot);
}

std::string_view Field::name() const {
  const std::string_view whole = key;
  const auto dot = whole.find('.');
  return dot == std::string_view::npos ? whole : whole.substr(dot + 1);
}

Slot Field::member(Config& config) const {
  for (const Shared& other : shared) {
    if (other.family == config.model.family) return other.slot(config);
  }
  return slot(config);
}

const Limits& Field::limits_for(std::string_view family) const {
  const auto other = std::ranges::find(shared, family, &Shared::family);
  return other == shared.end() ? limits : other->limits;
}

Effect Field::effect() const {
  if (own_effect) return *own_effect;
  constexpr std::pair<std::string_view, Effect> sections[] = {
      {"model", Effect::function},  {"parallel", Effect::layout}, {"device", Effect::place},
      {"comm", Effect::place},      {"optimizer", Effect::step},  {"lr_schedule", Effect::step},
      {"lora", Effect::state},      {"run", Effect::report},      {"checkpoint", Effect::report},
      {"telemetry", Effect::report}};
  for (const auto& [name, effect] : sections)
    if (section() == name) return effect;
  return Effect::history;
}

std::vector<Field> common_fields() {
  std::vector<Field> table;
  for (auto part :
       {run_and_device_fields, model_fields, +[] { return source_fields(); }, data_fields,
        mixture_fields, parallel_fields, message_fields, comm_fields, train_fields, measure_fields,
        lora_fields, optimizer_fields, checkpoint_fields, telemetry_fields}) {
    std::ranges::move(part(), std::back_inserter(table));
  }
  return table;
}

}  // namespace trireme::config
