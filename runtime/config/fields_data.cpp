// SPDX-License-Identifier: Apache-2.0
// data.*
#include <algorithm>

#include "runtime/config/field_rows.h"

namespace trireme::config {
namespace {

constexpr double any_value = 1e30;  // for measured values: pressures, energies

// Packed shards, and keys shared with files read in place.
std::vector<Field> packed_fields() {
  return {
      FIELD(data.path, Text{}, "directory or file of packed shards to train on")
          .changing(Effect::place),
      FIELD(data.validation_path, Text{}, "packed shards to evaluate on; empty = no evaluation")
          .changing(Effect::place),
      FIELD(data.test_path, Text{}, "packed shards for trireme eval --split test")
          .changing(Effect::place),
      FIELD(data.token_bytes, IntegerRange{0, 4},
            "of a token in a .bin file without index, 2 or 4; 0 = by its content"),
      FIELD(data.mean, (NumberRange{.low = -any_value, .high = any_value, .items = {0, 4096}}),
            "subtracted per channel, from pixels in 0..1 or with data.scaling from the values", {},
            Needs::channels),
      FIELD(data.std, (NumberRange{.high = any_value, .low_is_open = true, .items = {0, 4096}}),
            "divides each channel after the mean", {}, Needs::channels)
          .formerly_named("data.deviation"),
  };
}

// HDF5 files read in place: their paths and their samples.
std::vector<Field> hdf5_fields() {
  constexpr std::int64_t far = std::int64_t{1} << 40;
  return {
      FIELD(data.files, texts,
            "HDF5 files to train on in place, directories (all *.h5, *.hdf5 and *.nc below) or "
            "patterns with * ? []; instead of data.path")
          .changing(Effect::place),
      FIELD(data.validation_files, texts, "the same to evaluate on").changing(Effect::place),
      FIELD(data.test_files, texts, "the same for trireme eval --split test")
          .changing(Effect::place),
      FIELD(data.target_files, texts,
            "files that hold data.target instead: a row per sample, in the samples' order or named")
          .changing(Effect::place),
      FIELD(data.validation_target_files, texts, "the same for data.validation_files")
          .changing(Effect::place),
      FIELD(data.target_names, Text{},
            "texts in data.target_files that name the file or group of each row"),
      FIELD(data.validation_inputs, texts,
            "paths in data.files to evaluate on, as in X_val or val/x")
          .changing(Effect::report),
      FIELD(data.validation_target, (Text{.items = {0, 1024}, .plain = true}),
            "their targets; empty = data.target")
          .changing(Effect::report),
      FIELD(data.validation_fraction, below_one,
            "random share of the samples of data.files to evaluate on instead of training on them"),
      FIELD(data.split_key, Text{},
            "number or text, named like data.target, that assigns samples to training, validation "
            "or test, or name: of the file or group"),
      FIELD(data.validation_values, texts,
            "values of data.split_key to evaluate on; text and names may be patterns with * ? []"),
      FIELD(data.test_values, texts, "the same for trireme eval --split test"),
      FIELD(data.samples, one_of<SampleUnit>(),
            "one sample is a file, a position along the axis N, or one of data.groups"),
      FIELD(data.groups, Text{.may_be_empty = false},
            "groups that are samples, or hold them along N: a path with * ? [], as in data/demo_*"),
      FIELD(data.group_list, Text{},
            "texts in each file that name the groups to train on, as in mask/train; empty = all"),
      FIELD(data.validation_group_list, Text{}, "the same to evaluate on").changing(Effect::report),
      FIELD(data.inputs, texts, "paths of the data sets whose channels, in order, are the input"),
      FIELD(data.target, (Text{.items = {0, 1024}, .plain = true}),
            "path of the labels (integers, texts), path@attribute, or @attribute of the file or "
            "group; of numbers to predict one or several; of maps a data set with a class per "
            "pixel, or several with values"),
      FIELD(data.target_mean,
            (NumberRange{.low = -any_value, .high = any_value, .items = {0, 4096}}),
            "numbers to predict become (number - mean) / std, one of each per number"),
      FIELD(data.target_std,
            (NumberRange{.high = any_value, .low_is_open = true, .items = {0, 4096}}),
            "divides the numbers to predict after data.target_mean"),
      FIELD(data.ignored_class, IntegerRange{-2147483648, 2147483647},
            "class in maps to predict that is no target; loss and metrics are means over samples"),
      FIELD(data.class_names, texts,
            "classes of text labels, in the order of their numbers; empty = all in the training "
            "data, sorted"),
      FIELD(data.mask, Text{},
            "path of a map for all samples or each: where it is 0, inputs become 0 after scaling"),
      FIELD(data.weight, Text{},
            "weight of a sample's loss: a number, named like data.target; the sum is still divided "
            "by the number of samples"),
      FIELD(data.axes, Text{.may_be_empty = false},
            "stored axes of the inputs: H and W (of signals W, of tables C alone), and if there "
            "are C (channels), T (steps), D (depth), which become channels, and N (samples); "
            "volumes keep D; of matrices CC at the end; or a word for each input, as in NTHW NTHWC "
            "HW: one is the same along axes that it lacks"),
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
      FIELD(data.random_rot90, Free{}, "training rotates rows and columns by 0 to 3 right angles")
          .formerly_named("data.quarter_turns"),
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
            "apply attributes of netCDF and CF: missing values (see data.not_finite) and packing; "
            "false = values as stored"),
      FIELD(data.transform, one_of<InputTransform>(),
            "of inputs, before scaling: log1p = log(1 + value)"),
      FIELD(data.scaling, one_of<Scaling>(),
            "per channel: (value - mean) / std, or (value - min) / (max - min)"),
      FIELD(data.statistics, Text{},
            "for scaling, instead of data.mean and data.std: a file of trireme data inspect "
            "--statistics, or an HDF5 file"),
      FIELD(data.statistics_paths, (Text{.items = {0, 2}}),
            "in an HDF5 file of statistics: data sets of mean and std, or of min and max"),
      FIELD(data.not_finite, one_of<NotFinite>(),
            "NaN or infinity in the inputs: end the run, set to 0 after scaling, or keep; in "
            "numbers to predict: end the run, or leave out that target"),
      FIELD(data.damaged, one_of<Damaged>(),
            "samples that do not decode: end the run, or skip them, counted and listed", {},
            Needs::in_place),
      FIELD(data.outside_links, Free{},
            "links and virtual data sets may use files outside their file's folder"),
      FIELD(data.cache_megabytes, NumberRange{.high = any_size},
            "cache of a rank for decoded chunks that samples share")
          .changing(Effect::place),
  };
}

// Images of any size read in place.
std::vector<Field> image_fields() {
  constexpr std::int64_t most_pixels = std::int64_t{1} << 31;
  const Text list{.items = {0, 1024}};
  return {
      FIELD(data.images, list,
            "images to train on in place: archives of WebDataset (*.tar, directories of them, "
            "patterns with * ? []), or one directory of class folders; instead of data.path")
          .changing(Effect::place),
      FIELD(data.validation_images, list, "the same to evaluate on").changing(Effect::place),
      FIELD(data.label, Text{.may_be_empty = false},
            "archive member with a sample's label, by extension: cls, txt, or json:FIELD"),
      FIELD(data.crop_scale, (NumberRange{.high = 1000, .low_is_open = true, .items = {0, 2}}),
            "range of the share of an image's area that a random crop takes; empty = centre crop, "
            "as for evaluation"),
      FIELD(data.crop_ratio, (NumberRange{.high = 1000, .low_is_open = true, .items = {0, 2}}),
            "range of width / height of a random crop before resizing"),
      FIELD(data.eval_resize, IntegerRange{0, 1 << 20},
            "short side after resizing, before the centre crop of evaluation; 0 = 8/7 of the "
            "model's size, 256 for 224")
          .changing(Effect::report),
      FIELD(data.reduced_decode, Free{},
            "decode JPEGs at 1/2, 1/4 or 1/8 size if the crop is at least that many times the "
            "model's size; false = full size, slower, with the same pixels as torchvision"),
      FIELD(data.max_pixels, IntegerRange{1, most_pixels},
            "larger images are refused before memory is allocated for them")
          .changing(Effect::place),
  };
}

}  // namespace

std::vector<Field> data_fields() {
  return {
      FIELD(data.workers, IntegerRange{1, 256}, "reader threads per rank").changing(Effect::place),
      FIELD(data.prefetch, IntegerRange{1, 1024}, "batches read ahead").changing(Effect::place),
      FIELD(data.shuffle, Free{}, "a new sample order in each epoch").changing(Effect::samples),
      FIELD(data.shuffle_block, (IntegerRange{1, std::int64_t{1} << 40, {}, "chunk"}),
            "consecutive samples that stay together: blocks are shuffled, then the samples of "
            "every 16; "
            "chunk = those of a compressed chunk, which is then decoded once")
          .changing(Effect::samples),
      FIELD(data.last_batch, one_of<LastBatch>(), "drop or pad an incomplete last batch")
          .changing(Effect::samples),
      FIELD(data.stage, Text{},
            "directory on each host's local disk: data files are copied there during the run and "
            "then read from there; kept for the next job")
          .changing(Effect::place),
      FIELD(data.stage_gigabytes, NumberRange{.high = any_size},
            "limit of these copies per host: the first files that fit are copied; 0 = free space "
            "of the disk")
          .changing(Effect::place),
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
