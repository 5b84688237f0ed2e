// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/fields.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/config/field_rows.h"

namespace trireme::config {
namespace {

constexpr double any_value = 1e30;  // for measured values: pressures, energies
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
// [0, 1): shares and decay rates.
constexpr NumberRange below_one{.low = 0, .high = 1, .high_is_open = true};

std::vector<Field> run_and_device_fields() {
  return {
      FIELD(run.directory, Text{.may_be_empty = false},
            "where the run writes its config, metrics and weights"),
      FIELD(run.seed, Free{},
            "key of every random number: init, dropout, order; clock = drawn at the first start"),
      FIELD(run.deadline_minutes, NumberRange{.high = year_of_minutes},
            "stop with a checkpoint and exit code 75 after this long; 0 = no deadline"),
      FIELD(device.type, one_of<DeviceChoice>(),
            "device to compute on; auto = cuda if the build has it and a GPU is present"),
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
            "fast; run = same config and layout give the same bits; layout = the same bits on "
            "every layout"),
  };
}

// The values are the table's: it knows the families.
std::vector<Field> model_fields() {
  return {FIELD(model.family, Choices{}, "which model to build")};
}

constexpr Text texts{.items = {0, 1024}};

// Packed shards, and keys shared with files read in place.
std::vector<Field> packed_fields() {
  return {
      FIELD(data.path, Text{}, "directory or file of packed shards to train on"),
      FIELD(data.validation_path, Text{}, "packed shards to evaluate on; empty = no evaluation"),
      FIELD(data.test_path, Text{}, "packed shards for trireme eval --split test"),
      FIELD(data.mean, (NumberRange{.low = -any_value, .high = any_value, .items = {0, 4096}}),
            "subtracted per channel, from pixels in 0..1 or with data.scaling from the values", {},
            Needs::channels),
      renamed(
          FIELD(data.std, (NumberRange{.high = any_value, .low_is_open = true, .items = {0, 4096}}),
                "divides each channel after the mean", {}, Needs::channels),
          "data.deviation"),
  };
}

// HDF5 files read in place: their paths and their samples.
std::vector<Field> hdf5_fields() {
  constexpr std::int64_t far = std::int64_t{1} << 40;
  return {
      FIELD(data.files, texts,
            "HDF5 files to train on in place, directories (all *.h5, *.hdf5 and *.nc below) or "
            "patterns with * ? []; instead of data.path"),
      FIELD(data.validation_files, texts, "the same to evaluate on"),
      FIELD(data.test_files, texts, "the same for trireme eval --split test"),
      FIELD(data.validation_fraction, below_one,
            "random share of the samples of data.files to evaluate on instead of training on them"),
      FIELD(data.split_key, Text{},
            "number or text, named like data.target, that assigns samples to training, validation "
            "or test, or name: of the file or group"),
      FIELD(data.validation_values, texts,
            "values of data.split_key to evaluate on; text and names may be patterns with * ? []"),
      FIELD(data.test_values, texts, "the same for trireme eval --split test"),
      FIELD(data.samples, one_of<SampleUnit>(),
            "one sample is a file, a position along the axis N, or a group at a file's root"),
      FIELD(data.inputs, texts, "paths of the data sets whose channels, in order, are the input"),
      FIELD(data.target, (Text{.items = {0, 1024}, .plain = true}),
            "label of a sample: path of a data set of integers or text, or path@attribute, or "
            "@attribute of the file or group; of models that predict numbers one or several of "
            "these, each with one or more numbers per sample; of models that predict maps a data "
            "set with a class per pixel, or several with values"),
      FIELD(data.target_mean,
            (NumberRange{.low = -any_value, .high = any_value, .items = {0, 4096}}),
            "numbers to predict become (number - mean) / std, one of each per number"),
      FIELD(data.target_std,
            (NumberRange{.high = any_value, .low_is_open = true, .items = {0, 4096}}),
            "divides the numbers to predict after data.target_mean"),
      FIELD(data.ignored_class, IntegerRange{-2147483648, 2147483647},
            "class in maps to predict that is no target"),
      FIELD(data.class_names, texts,
            "classes of text labels, in the order of their numbers; empty = all in the training "
            "data, sorted"),
      FIELD(data.mask, Text{},
            "path of a map for all samples or each: where it is 0, inputs become 0 after scaling"),
      FIELD(data.weight, Text{},
            "weight of a sample's loss: a number, named like data.target; the sum is still divided "
            "by the number of samples"),
      FIELD(data.axes, Text{.may_be_empty = false},
            "stored axes of the inputs: H, W, optionally C (channels), T (steps) or D (depth), "
            "which also become channels, and N (samples); for volumes D is one more such axis; of "
            "matrices CC at the end; or a word for each input, as in NTHW NTHWC HW: one that lacks "
            "axes of the first is the same along them"),
      FIELD(data.input_channels, (IntegerRange{0, far, {0, 4096}}),
            "channels to read, numbered over all inputs; empty = all"),
      FIELD(data.crop, (IntegerRange{0, far, {0, 6}}),
            "part to read: [front,] top, left, [depth,] height, width; empty = all"),
      FIELD(data.window, IntegerRange{0, far},
            "steps of axis T per sample, one sample per start; 0 = all steps"),
      FIELD(data.window_stride, IntegerRange{1, far}, "distance between the steps of a window"),
      FIELD(data.steps_ahead, IntegerRange{0, far},
            "a window's label is taken this many steps after its last step"),
  };
}

// Parts of samples, and how training changes them.
std::vector<Field> patch_fields() {
  constexpr NumberRange share{.high = 1};
  return {
      FIELD(data.patches, Free{},
            "read a random part of the model's size in training, the centre in evaluations"),
      FIELD(data.foreground_share, share, "of patches: around a random pixel of a class above 0"),
      FIELD(data.flips, (NumberRange{.high = 1, .items = {0, 3}}),
            "training mirrors [slices,] rows, columns with these probabilities"),
      FIELD(data.quarter_turns, Free{}, "training turns rows and columns by 0 to 3 quarters"),
      FIELD(data.brightness, (NumberRange{.high = 1000, .items = {0, 2}}),
            "[b, p]: training multiplies scaled inputs by 1 - b to 1 + b with probability p"),
      FIELD(data.noise, (NumberRange{.high = 1000, .items = {0, 2}}),
            "[s, p]: training adds normal noise of a deviation from 0 to s with probability p"),
  };
}

// How their numbers are read.
std::vector<Field> hdf5_number_fields() {
  return {
      FIELD(data.bfloat16, Free{}, "16-bit unsigned integers are bfloat16"),
      FIELD(data.mask_and_scale, Free{},
            "apply attributes of netCDF and CF: _FillValue, missing_value and valid_range mark "
            "missing values (see data.not_finite), scale_factor and add_offset unpack; false = "
            "values as stored"),
      FIELD(data.transform, one_of<InputTransform>(),
            "of inputs, before scaling: log1p = log(1 + value)"),
      FIELD(data.scaling, one_of<Scaling>(),
            "per channel: (value - mean) / std, or (value - min) / (max - min)"),
      FIELD(data.statistics, Text{},
            "statistics for scaling, instead of data.mean and data.std: a file written by trireme "
            "data inspect --statistics, or an HDF5 file"),
      FIELD(data.statistics_paths, (Text{.items = {0, 2}}),
            "in an HDF5 file of statistics: data sets of mean and std, or of min and max"),
      FIELD(data.not_finite, one_of<NotFinite>(),
            "NaN or infinity in the inputs: end the run, set it to 0 after scaling, or keep it; in "
            "numbers or maps to predict: end the run, or leave out that target"),
      FIELD(data.damaged, one_of<Damaged>(),
            "samples that do not decode: end the run, or skip them, counted and listed", {},
            Needs::in_place),
      FIELD(data.outside_links, Free{},
            "links and virtual data sets may use files outside their file's folder"),
      FIELD(data.cache_megabytes, NumberRange{.high = any_size},
            "cache of a rank for decoded chunks that samples share"),
  };
}

// Images of any size read in place.
std::vector<Field> image_fields() {
  constexpr std::int64_t most_pixels = std::int64_t{1} << 31;
  const Text list{.items = {0, 1024}};
  return {
      FIELD(data.images, list,
            "images to train on in place: archives of WebDataset (*.tar, directories of them, "
            "patterns with * ? []), or one directory of class folders; instead of data.path"),
      FIELD(data.validation_images, list, "the same to evaluate on"),
      FIELD(data.label, Text{.may_be_empty = false},
            "archive member with a sample's label, by extension: cls, txt, or json:FIELD"),
      FIELD(data.crop_scale, (NumberRange{.high = 1000, .low_is_open = true, .items = {0, 2}}),
            "range of the share of an image's area that a random crop takes; empty = centre crop, "
            "as for evaluation"),
      FIELD(data.crop_ratio, (NumberRange{.high = 1000, .low_is_open = true, .items = {0, 2}}),
            "range of width / height of a random crop before resizing"),
      FIELD(data.eval_resize, IntegerRange{0, 1 << 20},
            "short side after resizing, before the centre crop of evaluation; 0 = 8/7 of the "
            "model's size, 256 for 224"),
      FIELD(data.reduced_decode, Free{},
            "decode JPEGs at 1/2, 1/4 or 1/8 size if the crop is at least that many times the "
            "model's size; false = full size, slower, with the same pixels as torchvision"),
      FIELD(data.max_pixels, IntegerRange{1, most_pixels},
            "larger images are refused before memory is allocated for them"),
  };
}

std::vector<Field> data_fields() {
  return {
      FIELD(data.workers, IntegerRange{1, 256}, "reader threads per rank"),
      FIELD(data.prefetch, IntegerRange{1, 1024}, "batches read ahead"),
      FIELD(data.shuffle, Free{}, "a new sample order in each epoch"),
      FIELD(data.last_batch, one_of<LastBatch>(), "drop or pad an incomplete last batch"),
      FIELD(data.stage, Text{},
            "directory on each host's local disk: data files are copied there during the run and "
            "then read from there; kept for the next job"),
      FIELD(data.stage_gigabytes, NumberRange{.high = any_size},
            "limit of these copies per host: the first files that fit are copied; 0 = free space "
            "of the disk"),
      FIELD(data.documents, one_of<Documents>(),
            "separate = attention stays within each text of a sequence, positions restart at each "
            "text, and no target crosses its end"),
      FIELD(data.crop_padding, IntegerRange{0, 1024},
            "random crop after padding by this many pixels", {}, Needs::images),
      FIELD(data.flip, Free{}, "mirror half of the images", {}, Needs::images),
      FIELD(data.mixup, NumberRange{.high = 4},
            "mix each image and label with the next of the micro-batch, with a share from Beta(a, "
            "a) for this a; 0 = off",
            {}, Needs::images),
      FIELD(data.cutmix, NumberRange{.high = 4},
            "the same with a box of the other image (CutMix); with data.mixup each applies to half "
            "of the images; 0 = off",
            {}, Needs::images),
  };
}

// Several sources instead of data.path.
std::vector<Field> mixture_fields() {
  constexpr std::size_t most = 1024;
  constexpr Items list{0, most};
  return {
      FIELD(data.sources, DataSets{list},
            "mixture of data sets, instead of data.path; every batch has their shares. Each is a "
            "path, or {name: ..., path: ...} with any of the keys above"),
      FIELD(data.weights, (NumberRange{.high = any_size, .low_is_open = true, .items = list}),
            "share of each source, in proportion; empty = by size"),
      FIELD(data.weight_temperature, (NumberRange{.high = 1000, .low_is_open = true}),
            "shares are proportional to weight^(1 / this): above 1 they are more equal"),
      FIELD(data.source_epochs, (IntegerRange{0, many, list}),
            "epochs after which each source leaves the mixture; 0 = no limit"),
      FIELD(data.source_from, (IntegerRange{0, many, list}),
            "number of completed steps when each source joins the mixture"),
      FIELD(data.source_until, (IntegerRange{0, many, list}),
            "number of completed steps when each source leaves the mixture; 0 = never"),
  };
}

std::vector<Field> train_fields() {
  return {
      FIELD(train.steps, IntegerRange{1, many}, "optimizer steps"),
      FIELD(train.global_batch, IntegerRange{1, 1 << 30}, "samples per step over all ranks"),
      FIELD(train.micro_batch, IntegerRange{1, 1 << 20}, "samples per forward pass of one rank"),
      FIELD(train.batch_ramp, texts,
            "growing global batch: a list of STEP:SIZE; from STEP on (counted from 0) a global "
            "batch has SIZE samples; the last size is train.global_batch"),
      FIELD(train.batch_ramp_form, one_of<RampForm>(),
            "between two entries of train.batch_ramp: stepwise = the earlier size; linear = "
            "interpolated, in multiples of the greatest common divisor of all sizes"),
      FIELD(train.context_ramp, texts,
            "growing sequences: a list of STEP:TOKENS; from STEP on (counted from 0) sequences "
            "have TOKENS tokens; the last is model.context. Longer rows are cut into such "
            "sequences, so a step keeps its number of tokens"),
      FIELD(train.initial_weights, Text{},
            "initial weights: a safetensors file, an index of several files, a directory with "
            "either, or a checkpoint of any layout; empty = random. Keys of the model section that "
            "the config does not set are taken from the run of the weights"),
      FIELD(train.recompute, one_of<Recompute>(),
            "activations that the backward pass recomputes instead of keeping them"),
      FIELD(train.row_tile, IntegerRange{0, 1 << 30},
            "rows at a time in MLPs and language heads, a divisor of the rows of a micro-batch on "
            "a rank; backward computes again what lies between, so that long sequences need "
            "little memory. 0 = all rows"),
      FIELD(train.clip_norm, NumberRange{.high = any_size},
            "largest global gradient norm; 0 = no clipping"),
      FIELD(train.loss, one_of<LossChoice>(),
            "loss of a model that predicts values, of their errors: mse = squared; mae = absolute; "
            "huber = absolute beyond huber_delta; auto = mse. Of classes: auto = cross-entropy; of "
            "pixels dice_cross_entropy = half of it, half the dice loss without the first class"),
      FIELD(train.huber_delta, (NumberRange{.high = 1e9, .low_is_open = true}),
            "largest error whose loss is half its square; beyond, the loss is linear", huber),
      FIELD(train.label_smoothing, below_one,
            "share of the target probability spread over all classes"),
      FIELD(train.z_loss, NumberRange{.high = 1},
            "weight of z-loss, the squared logarithm of the softmax's denominator, in the training "
            "loss; keeps logits from drifting (published: 1e-4)"),
      FIELD(train.ema_decay, below_one, "decay of the averaged weights; 0 = no average"),
      FIELD(train.eval_every, IntegerRange{0, many},
            "steps between evaluations; 0 = only at the end"),
      FIELD(train.eval_every_samples, IntegerRange{0, many},
            "instead of train.eval_every: evaluate after each step whose samples reach or pass a "
            "multiple of this; 0 = none"),
      FIELD(train.eval_batches, IntegerRange{0, many},
            "global batches per evaluation, the first of the validation set; 0 = all of it"),
      FIELD(train.eval_overlap, below_one,
            "evaluate whole samples, larger than the model's, in windows that overlap by at least "
            "this share along each axis, and average logits by a Gaussian; 0 = off",
            {}, Needs::fields),
      FIELD(train.stop_at, Free{},
            "{metric: NAME, below: X} or {metric: NAME, above: X}: the run ends at the first "
            "evaluation whose eval_loss, accuracy, mae, vrmse, mean_iou or mean_dice passes X; {} "
            "= never"),
      FIELD(train.log_every, IntegerRange{1, many}, "steps between console lines"),
      FIELD(train.non_finite_limit, IntegerRange{1, 1'000'000},
            "consecutive steps with a NaN or infinite loss or gradient, all skipped, after which "
            "the run stops (exit code 6)"),
      FIELD(train.spike_zscore, NumberRange{.high = any_size},
            "skip a batch whose loss lies this many standard deviations above the running mean; 0 "
            "= never"),
      FIELD(train.spike_window, IntegerRange{2, many},
            "steps in the running mean and standard deviation; no step before that is skipped"),
      FIELD(train.divergence_check_every, IntegerRange{0, many},
            "steps between comparisons of the replicas' weights, also done at the start and at the "
            "end of a run (exit code 5 if they differ); 0 = never"),
      FIELD(train.noise_scale_every, IntegerRange{0, many},
            "steps between measurements of the gradient noise scale: the batch size beyond which a "
            "step gains little (McCandlish et al., 2018); 0 = never"),
  };
}

std::vector<Field> lora_fields() {
  return {
      FIELD(lora.rank, IntegerRange{0, 4096},
            "LoRA: rank of the trained factors; all other weights are frozen; 0 = all weights are "
            "trained"),
      FIELD(lora.alpha, (NumberRange{.high = 1e6, .low_is_open = true}),
            "LoRA: the product of the factors is scaled by alpha / rank"),
      FIELD(lora.targets, texts,
            "LoRA: linear layers with factors in each block: qkv, output (attention), expand, "
            "contract (the MLP's up and down projection)"),
  };
}

std::vector<Field> optimizer_fields() {
  return {
      FIELD(optimizer.name, one_of<OptimizerKind>(),
            "update rule; adafactor: as in T5, clipped at 1, no first moment; muon: adamw for all "
            "but hidden matrices and filters"),
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
      FIELD(lr_schedule.name, one_of<LrDecay>(),
            "rate after warm-up, as a share of learning_rate: with r = "
            "minimum_ratio and p = (n - 1 - w) / (steps - 1 - w) at step n, cosine is "
            "r + (1 - r) (1 + cos(pi p)) / 2, linear is 1 - (1 - r) p, polynomial is "
            "r + (1 - r) (1 - p)^power, exponential is r^p, wsd is 1 and falls "
            "linearly to r over the last decay_fraction of the steps, and multistep is given by "
            "factors"),
      FIELD(lr_schedule.warmup_steps, IntegerRange{0, many},
            "steps w of linear warm-up: step n, counted from 1, has learning_rate n / w up to step "
            "w"),
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

std::vector<Field> common_fields() {
  std::vector<Field> table;
  for (auto part : {run_and_device_fields, model_fields, +[] { return source_fields(); },
                    data_fields, mixture_fields, parallel_fields, comm_fields, train_fields,
                    lora_fields, optimizer_fields, checkpoint_fields, telemetry_fields}) {
    std::ranges::move(part(), std::back_inserter(table));
  }
  return table;
}

const std::vector<Field>& source_fields() {
  static const std::vector<Field> rows = [] {
    std::vector<Field> all = packed_fields();
    const auto add = [&](Needs needs, const std::vector<Field>& part) {
      for (const Field& row : part) {
        all.push_back(row);
        if (row.needs == Needs::any_model) all.back().needs = needs;
      }
    };
    add(Needs::hdf5_files, hdf5_fields());
    add(Needs::hdf5_files, patch_fields());
    add(Needs::hdf5_files, hdf5_number_fields());
    add(Needs::image_files, image_fields());
    return all;
  }();
  return rows;
}

}  // namespace trireme::config
