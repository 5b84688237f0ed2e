// SPDX-License-Identifier: Apache-2.0
// Rules on the models' inputs.
#include <algorithm>
#include <sstream>

#include "runtime/config/rules/rules.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

bool has_volumes(const Subject& subject) {
  const auto volumes = subject.family().volumes;
  return volumes != nullptr && volumes(subject.config.model);
}

// A set key must have an effect. `without`: the missing condition.
void check_unused(const Subject& subject, Needs needs, std::string_view without) {
  const Config& defaults = subject.keys.defaults();
  for (const Field& field : source_fields()) {
    if (field.needs != needs || same_value(field, subject.config, defaults)) continue;
    refuse(subject, field.key, "{} has no effect without {}; set them or remove it",
           format_value(field, subject.config), without);
  }
}

// Those behind the first word, of inputs that lack some of its axes.
void check_more_axes(const Subject& subject, const std::vector<std::string>& words) {
  const DataConfig& data = subject.config.data;
  if (words.size() > 1 && words.size() != data.inputs.size())
    refuse(subject, "data.axes",
           "'{}' has {} words for the {} data sets of data.inputs; write one for all, or one for "
           "each",
           data.axes, words.size(), data.inputs.size());
  for (const std::string& word : words) {
    std::string once = word;
    if (once.ends_with("CC")) once.pop_back();
    std::ranges::sort(once);
    const bool known = (words[0] + "C").find_first_of(word) != std::string::npos &&
                       word.find_first_not_of(words[0] + "C") == std::string::npos;
    const auto matrix = word.find("CC");
    if (known && std::ranges::adjacent_find(once) == once.end() &&
        (matrix == word.npos || matrix + 2 == word.size()))
      continue;
    refuse(subject, "data.axes",
           "'{}' in '{}': an input has axes of the first word, each once, and C; of matrices CC at "
           "the end; as in NTHW NTHWC HW",
           word, data.axes);
  }
}

void check_axes(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  std::istringstream text(data.axes);
  std::vector<std::string> words;
  for (std::string word; text >> word;)
    words.push_back(word);
  std::string letters = words.empty() ? "" : words.front();
  if (letters.ends_with("CC")) letters.pop_back();
  std::ranges::sort(letters);
  const auto has = [&](char axis) { return letters.find(axis) != std::string::npos; };
  const bool once = std::ranges::adjacent_find(letters) == letters.end();
  const bool known = letters.find_first_not_of("CDHNTW") == std::string::npos;
  const bool volumes = has_volumes(subject);
  if (volumes && once && known && has('H') && has('W') && !has('D')) {
    refuse(subject, "data.axes",
           "{} has no D, but model.family: {} reads volumes; say where their depth is, as in DHWC",
           data.axes, subject.config.model.family);
  }
  const bool sided = has('W') ? has('H') || !(has('D') || volumes) : has('C') && !has('H');
  if (!once || !known || !sided || (has('D') && has('T') && !volumes)) {
    refuse(subject, "data.axes",
           "{} is not an order of axes; write H and W (of signals W, of tables C alone), and, if "
           "the inputs have them, C (channels), T (steps) or D (depth), and N (samples), each "
           "once, as in HWC, CHW, NTHW, DHW, NWC or NC",
           data.axes);
  }
  const bool along = data.samples == SampleUnit::axis;
  if (along != has('N') && (along || data.samples != SampleUnit::group)) {
    refuse(subject, "data.axes", "{} has {}N, the axis of samples, with data.samples: {}; {}",
           data.axes, along ? "no " : "", name_of(data.samples),
           along ? "say where it is, as in NHWC, or use samples: file"
                 : "use samples: axis, or leave N out");
  }
  const bool windowed = data.window > 0 || data.window_stride > 1 || data.steps_ahead > 0;
  if (windowed && !has('T'))
    refuse(subject, "data.axes", "{} has no axis T, which data.window needs", data.axes);
  if (data.window == 0 && (data.window_stride > 1 || data.steps_ahead > 0))
    refuse(subject, "data.window",
           "0 takes all steps, which allows neither a stride nor steps ahead");
  check_more_axes(subject, words);
}

void check_scaling(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const bool given = !data.mean.empty() || !data.std.empty();
  if (data.scaling == Scaling::none) {
    if (given || !data.statistics.empty() || !data.statistics_paths.empty()) {
      refuse(subject, "data.scaling",
             "with none, data.mean, data.std and data.statistics have no effect; use mean_std or "
             "min_max, or remove them");
    }
    return;
  }
  if (given == !data.statistics.empty()) {
    refuse(subject, "data.scaling", "{} needs either data.statistics, or data.mean and data.std",
           name_of(data.scaling));
  }
  if (given && (data.scaling == Scaling::min_max || data.mean.size() != data.std.size())) {
    refuse(subject, "data.scaling", "{} with data.mean and data.std: use mean_std, and give both",
           name_of(data.scaling));
  }
  if (data.statistics.empty() && !data.statistics_paths.empty())
    refuse(subject, "data.statistics_paths", "are paths in data.statistics, which is not set");
}

void check_parts(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const bool values = !data.validation_values.empty() || !data.test_values.empty();
  if (values == data.split_key.empty()) {
    refuse(subject, "data.split_key",
           "{} data.validation_values and data.test_values: give both the key and values, or "
           "neither",
           values ? "is not set for" : "has no");
  }
  const bool also = data.validation_fraction > 0 || !data.validation_files.empty();
  if (also && (data.validation_fraction > 0 ? values : !data.validation_values.empty())) {
    refuse(subject, "data.split_key", "and {} both say what to evaluate on; remove one of them",
           data.validation_fraction > 0 ? "data.validation_fraction" : "data.validation_files");
  }
  if (!data.test_values.empty() && !data.test_files.empty()) {
    refuse(subject, "data.test_values",
           "and data.test_files both say what to test on; remove one of them");
  }
}

void check_crop(const Subject& subject) {
  const std::vector<std::int64_t>& crop = subject.config.data.crop;
  const bool volumes = has_volumes(subject);
  const std::size_t starts = volumes ? 3 : 2;
  if (crop.empty()) return;
  if (crop.size() != 2 * starts ||
      std::ranges::find(crop.begin() + static_cast<std::ptrdiff_t>(starts), crop.end(), 0) !=
          crop.end()) {
    refuse(subject, "data.crop", "expected {}",
           volumes ? "front, top, left, depth, height and width of a volume; the last three above 0"
                   : "top, left, height and width; height and width above 0");
  }
}

void check_amount(const Subject& subject, std::string_view key, const std::vector<double>& of) {
  if (of.empty() || (of.size() == 2 && of[1] <= 1)) return;
  refuse(subject, key, "expected an amount and a probability up to 1, as in [0.1, 0.5]");
}

// Parts of samples, and how training changes them.
void check_patches(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const auto& spatial = subject.config.parallel.spatial;
  if (data.foreground_share > 0 && !data.patches)
    refuse(subject, "data.foreground_share", "{} has no effect without data.patches: true",
           data.foreground_share);
  if (data.patches && !data.crop.empty())
    refuse(subject, "data.crop",
           "and data.patches both say which part of a sample to read; remove one of them");
  const bool volumes = has_volumes(subject);
  if (!data.flips.empty() && data.flips.size() != (volumes ? 3 : 2))
    refuse(subject, "data.flips", "has {} probabilities; give {}", data.flips.size(),
           volumes ? "three, along slices, rows and columns" : "two, along rows and columns");
  check_amount(subject, "data.brightness", data.brightness);
  check_amount(subject, "data.noise", data.noise);
  if (!data.varies()) return;
  const bool moves = data.patches || !data.flips.empty() || data.random_rot90;
  const std::string_view key = data.patches               ? "data.patches"
                               : !data.flips.empty()      ? "data.flips"
                               : data.random_rot90        ? "data.random_rot90"
                               : !data.brightness.empty() ? "data.brightness"
                                                          : "data.noise";
  if (moves && subject.family().targets(subject.config.model).is_value_map())
    refuse(subject, key,
           "with model.values: maps of values are read whole, and a flip or turn would have to "
           "change the components of vectors; remove it");
  if (std::ranges::all_of(spatial, [](std::int64_t n) { return n == 1; })) return;
  refuse(subject, key,
         "with parallel.spatial, whose ranks read fixed parts of whole samples; use "
         "parallel.spatial: [1, 1, 1], or remove it");
}

// Where the parts of samples are: files, groups, and paths of validation.
void check_places(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const auto unused = [&](std::string_view key, bool set, std::string_view without) {
    if (set) refuse(subject, key, "has no effect without {}; set both or remove it", without);
  };
  const bool groups = data.samples == SampleUnit::group;
  unused("data.groups", !groups && data.groups != "*", "data.samples: group");
  unused("data.group_list", !groups && !data.group_list.empty(), "data.samples: group");
  unused("data.validation_group_list",
         data.group_list.empty() && !data.validation_group_list.empty(),
         "data.group_list, so that training leaves them out");
  unused("data.target_names", data.target_files.empty() && !data.target_names.empty(),
         "data.target_files");
  unused("data.validation_target",
         data.validation_inputs.empty() && !data.validation_target.empty(),
         "data.validation_inputs");
  unused("data.validation_target_files",
         data.target_files.empty() && !data.validation_target_files.empty(), "data.target_files");
  if (data.validates_inside() && (data.holds_back() || !data.validation_files.empty()))
    refuse(subject,
           data.validation_inputs.empty() ? "data.validation_group_list" : "data.validation_inputs",
           "and {} both say what to evaluate on; remove one of them",
           data.validation_fraction > 0     ? "data.validation_fraction"
           : data.validation_values.empty() ? "data.validation_files"
                                            : "data.validation_values");
  if (!data.target_files.empty() && data.validation_target_files.empty() &&
      !data.validation_files.empty())
    refuse(subject, "data.validation_target_files",
           "not set, but targets are in files of their own (data.target_files); name those of "
           "data.validation_files");
}

[[noreturn]] void refuse_second_kind(const Subject& subject, std::string_view other) {
  refuse(subject, "data.images", "and {} both say what to train on or to evaluate on; remove one",
         other);
}

void check_files(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  if (!data.path.empty() || !data.validation_path.empty() || !data.test_path.empty()) {
    refuse(subject,
           !data.path.empty()              ? "data.path"
           : !data.validation_path.empty() ? "data.validation_path"
                                           : "data.test_path",
           "names packed shards, but data.files is also set; remove one of them");
  }
  if (!data.images.empty() || !data.validation_images.empty())
    refuse_second_kind(subject, "data.files");
  if (data.inputs.empty()) {
    refuse(subject, "data.inputs",
           "not set; give the paths of the input's data sets, which trireme data inspect FILE "
           "prints");
  }
  if (data.target.empty() || std::ranges::find(data.target, "") != data.target.end()) {
    refuse(subject, "data.target",
           "not set; give the path of the labels, path@attribute or @attribute");
  }
  check_crop(subject);
  check_patches(subject);
  if (data.target_mean.size() != data.target_std.size()) {
    refuse(subject, data.target_mean.empty() ? "data.target_std" : "data.target_mean",
           "data.target_mean has {} numbers and data.target_std {}; give one of each per number to "
           "predict, or neither",
           data.target_mean.size(), data.target_std.size());
  }
  check_places(subject);
  if (data.validation_fraction > 0 && !data.validation_files.empty()) {
    refuse(subject, "data.validation_fraction",
           "{} and data.validation_files both name samples to evaluate on; remove one of them",
           data.validation_fraction);
  }
  check_parts(subject);
  check_axes(subject);
  check_scaling(subject);
}

void check_range(const Subject& subject, std::string_view key, const std::vector<double>& range) {
  if (range.size() == 2 && range[0] <= range[1]) return;
  refuse(subject, key, "expected two numbers, from and to, the first not above the second");
}

void refuse_second_crop(const Subject& subject) {
  const std::int64_t padding = subject.config.data.crop_padding;
  if (padding == 0) return;
  refuse(subject, "data.crop_padding",
         "{} would crop again what the random crop of crop_scale has chosen; remove it, or set "
         "crop_scale: []",
         padding);
}

void check_images(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  if (!data.path.empty() || !data.validation_path.empty())
    refuse_second_kind(subject, data.path.empty() ? "data.validation_path" : "data.path");
  const std::size_t colon = data.label.find(':');
  if (colon == 0 || (colon != data.label.npos && !data.label.starts_with("json:")) ||
      data.label == "json" || data.label == "json:") {
    refuse(subject, "data.label",
           "{} does not name a label; give an extension, as in cls or txt, whose text is a number, "
           "or json:FIELD",
           data.label);
  }
  if (!data.crop_scale.empty()) check_range(subject, "data.crop_scale", data.crop_scale);
  if (!data.crop_scale.empty() && data.crop_scale[1] > 1)
    refuse(subject, "data.crop_scale", "{} is more than the whole area of an image; use 1 or less",
           data.crop_scale[1]);
  check_range(subject, "data.crop_ratio", data.crop_ratio);
  if (!data.crop_scale.empty()) refuse_second_crop(subject);
}

void check_list(const Subject& subject, std::string_view key, std::size_t size) {
  const std::size_t sources = subject.config.data.sources.size();
  if (size == 0 || size == sources) return;
  refuse(subject, key, "has {} values for {} data.sources; give one for each, or none", size,
         sources);
}

// The model scales pixels of packed images, but next to files with floats they are scaled when
// read.
void check_source_scales(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const auto scaled = [](const DataSource& of) { return !of.mean.empty() || !of.std.empty(); };
  if (data.float_samples() && scaled(data))
    refuse(subject, data.mean.empty() ? "data.std" : "data.mean",
           "is for one data set; with files among data.sources write mean and std in each source");
  if (!data.float_samples() && std::ranges::any_of(data.sources, scaled))
    refuse(subject, "data.sources",
           "mean and std of a source are for packed images beside files read in place; use "
           "data.mean and data.std, which apply to all sources");
}

// A validation set is reported by its source's name.
void check_source_names(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  if (data.sources_validate() && !data.validation_path.empty())
    refuse(subject, "data.validation_path",
           "and validation sets of data.sources both say what to evaluate on; remove one of them");
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const std::string& name = data.sources[i].label();
      if (name != data.sources[k].label()) continue;
      if (data.sources[i].name.empty() && !data.sources_validate()) continue;
      refuse(subject, "data.sources", "{} and {} are both called {}; give each a name of its own",
             k, i, name);
    }
  }
}

// Each source is held to the rules of a data set that stands alone.
void check_each_source(const Subject& subject) {
  const bool set = subject.where.overridden.contains("data.sources");
  const std::string place = set ? "--set data.sources" : subject.where.describe("data.sources");
  for (std::size_t i = 0; i < subject.config.data.sources.size(); ++i) {
    Config alone = subject.config;
    alone.data = {};
    static_cast<DataSource&>(alone.data) = subject.config.data.sources[i];
    Provenance where;
    where.file = subject.where.file;
    for (const Field& row : source_fields())
      where.places.emplace(row.key, fmt::format("{}[{}].{}", place, i, row.name()));
    const Subject source{subject.keys, alone, subject.environment, where, Purpose::train};
    check_applicable(source);
    subject.family().check(source);
    check_data(source);
  }
}

void check_sources(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  check_list(subject, "data.weights", data.weights.size());
  check_list(subject, "data.source_epochs", data.source_epochs.size());
  check_list(subject, "data.source_from", data.source_from.size());
  check_list(subject, "data.source_until", data.source_until.size());
  if (data.sources.empty()) {
    if (data.weight_temperature != 1)
      refuse(subject, "data.weight_temperature", "{} has no effect without data.sources",
             data.weight_temperature);
    return;
  }
  if (!data.path.empty() || data.kind() != SourceKind::packed)
    refuse(subject, "data.sources", "and {} both say what to train on; remove one of them",
           data.place(DataPart::training).key);
  check_source_scales(subject);
  check_source_names(subject);
  const bool cropped = std::ranges::any_of(data.sources, [](const NamedSource& source) {
    return source.kind() == SourceKind::images && !source.crop_scale.empty();
  });
  if (cropped) refuse_second_crop(subject);
  for (std::size_t i = 0; i < data.source_until.size(); ++i) {
    const std::int64_t from = data.source_from.empty() ? 0 : data.source_from[i];
    if (data.source_until[i] != 0 && data.source_until[i] <= from)
      refuse(subject, "data.source_until",
             "{} would leave the mixture at step {} and join it at {}", data.sources[i].label(),
             data.source_until[i], from);
  }
  check_each_source(subject);
}

}  // namespace

void check_data(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  const SourceKind kind = data.kind();
  if (kind == SourceKind::files) check_files(subject);
  if (kind == SourceKind::images) check_images(subject);
  if (kind != SourceKind::files) check_unused(subject, Needs::hdf5_files, "data.files");
  if (kind != SourceKind::images) check_unused(subject, Needs::image_files, "data.images");
  if (kind == SourceKind::packed)
    check_unused(subject, Needs::in_place, "data.files or data.images");
  if (data.token_bytes != 0 && (data.token_bytes % 2 != 0 || !data.path.ends_with(".bin")))
    refuse(subject, "data.token_bytes", "is 2 or 4, for a data.path that ends in .bin");
  check_sources(subject);
  if (data.stage.empty() && data.stage_gigabytes > 0)
    refuse(subject, "data.stage_gigabytes", "{} has no effect without data.stage; name a directory",
           data.stage_gigabytes);
  const bool any =
      !data.path.empty() || !data.files.empty() || !data.images.empty() || !data.sources.empty();
  if (subject.purpose == Purpose::train && !any) {
    refuse(subject, "data.path",
           "not set; give packed shards, made with trireme data pack-text or pack-images, or name "
           "HDF5 files by data.files, or images by data.images");
  }
  if (subject.purpose == Purpose::evaluate && !data.has_validation()) {
    refuse(subject, "data.validation_path",
           "not set; give the packed shards to evaluate on with --data DIRECTORY");
  }
}

}  // namespace trireme::config
