// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/data_sets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>

#include "data/fields/field_dataset.h"
#include "data/fields/index_store.h"
#include "data/fields/join.h"
#include "data/fields/statistics.h"
#include "data/files/file_tree.h"
#include "data/hdf5/child.h"
#include "data/sets/image_dataset.h"
#include "data/sets/masked_tokens.h"
#include "data/sets/mixture_dataset.h"
#include "data/sets/text_dataset.h"
#include "launch/engine/options.h"
#include "launch/engine/shared_index.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

// One of the data sets that a part of the data is made of: the data section, or one of
// data.sources.
struct OneSet {
  const Config& config;
  const DataSource& data;
  DataPart part;
  std::string name;                   // of a source
  std::string index;                  // the file that stores the index of files read in place
  const Dataset* training = nullptr;  // of the same source, if open

  // Whether its samples are held back of those of the training data.
  [[nodiscard]] bool is_held_back() const {
    return part == DataPart::validation && data.holds_back();
  }
};

bool is_mixed(const DataConfig& data, DataPart part) {
  return part == DataPart::training ? !data.sources.empty() : data.sources_validate();
}

// `training`: the training data if open, else null.
std::vector<OneSet> sets_of(const Config& config, DataPart part, const Dataset* training) {
  std::vector<OneSet> sets;
  const auto add = [&](const DataSource& data, const std::string& name, const std::string& number,
                       const Dataset* same) {
    sets.push_back({config, data, part, name, "", same});
    const bool first = part == DataPart::training || sets.back().is_held_back();
    sets.back().index = fmt::format("{}/{}{}.index", config.run.directory,
                                    first ? "data" : "validation_data", number);
  };
  if (!is_mixed(config.data, part)) {
    add(config.data, "", "", training);
    return sets;
  }
  const auto& sources = config.data.sources;
  const auto known = training == nullptr ? std::span<const NamedDataset>{} : training->sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (part == DataPart::training || sources[i].validates())
      add(sources[i], sources[i].label(), fmt::format(".{}", i),
          known.size() == sources.size() ? known[i].data.get() : nullptr);
  }
  return sets;
}

// The fields of files, as all ranks need them.
KeptIndexes shared_indexes(Communicator& world, const std::string& kept,
                           const std::vector<std::string>& names, const ScanRequest& request) {
  const auto bytes_of = [](const FileIndex& index) {
    std::string bytes;
    append_index(bytes, index);
    return bytes;
  };
  IndexWork work;
  std::string touched;
  work.list = [&] { return expand_files(names); };
  work.known = [&](const std::vector<std::string>& files) {
    std::unordered_map<std::string, std::string> known;
    KeptIndexes held = kept_indexes(kept, request, files);
    touched = std::move(held.touched);
    for (const FileIndex& index : held.indexes)
      known.emplace(index.path, bytes_of(index));
    return known;
  };
  work.scan = [&](std::span<const std::string> files, std::size_t processes) {
    std::vector<std::string> texts;
    for (const FileIndex& index : scan_in_children(files, request, processes))
      texts.push_back(bytes_of(index));
    return texts;
  };
  std::string bytes;
  for (const std::string& text : share_indexes(world, work))
    bytes += text;
  return {parse_indexes(bytes), broadcast_text(world, touched, 0)};
}

// For validation data; changed training data ends the run (state/starting_point.h).
void warn_touched(const Communicator& world, DataPart part, const std::string& touched) {
  if (part != DataPart::validation || touched.empty() || world.rank() != 0) return;
  log::get("data").warn(
      "{} written to since this run last looked, with the same size: validation losses before and "
      "after may be over different numbers",
      touched);
}

TextTargets text_targets(const ModelTraits& traits) {
  if (!traits.labelled_text()) return TextTargets::none;
  if (traits.targets.kind == TargetKind::token_classes) return TextTargets::token_classes;
  if (traits.targets.kind == TargetKind::label) return TextTargets::label;
  return traits.targets.is_multi_label() ? TextTargets::labels : TextTargets::values;
}

std::int64_t target_width(const ModelTraits& traits) {
  const TargetSpec& targets = traits.targets;
  return targets.classes > 0 ? targets.classes : targets.shape.count();
}

// Packed shards or tokens of Megatron-LM.
std::unique_ptr<Dataset> open_packed(Communicator& /*world*/, const OneSet& one) {
  const Config& config = one.config;
  const ModelTraits traits = traits_of(config.model);
  constexpr std::int64_t bytes = 256;
  const bool training = one.part == DataPart::training;
  const std::string path = one.data.place(one.part).names.front();
  auto set = Dataset::open(path, {.context = traits.context,
                                  .split = training ? "train" : "validation",
                                  .vocabulary = traits.vocabulary,
                                  .token_bytes = one.data.token_bytes,
                                  .classes = traits.classes,
                                  .text_targets = text_targets(traits),
                                  .target_width = target_width(traits),
                                  .pad_token = traits.pad_token,
                                  .pools_last = traits.pools_last,
                                  .skips_padding = traits.skips_padding,
                                  .image_size = traits.image_size,
                                  .image_width = traits.image_width,
                                  .channels = traits.channels,
                                  .documents = config.data.documents == Documents::separate});
  if (traits.mask_token == 0) return set;
  if (!set->shards().empty() && set->shards().front().header.counted)
    fail(ExitCode::config,
         "{}: {} has a loss mask, but model.family: {} chooses its target tokens itself; pack the "
         "texts without prompts and chats",
         data_key(config.data, one.part), path, config.model.family);
  if (!set->shards().empty() && set->shards().front().header.tokenizer == "bytes" &&
      traits.mask_token < bytes)
    fail(ExitCode::config,
         "model.mask_token: {} is a byte of the text in {}; use {}, with model.vocabulary: {} or "
         "more",
         traits.mask_token, path, bytes, bytes + 1);
  return std::make_unique<MaskedTokens>(
      std::move(set), MaskOptions{.share = traits.mask_probability,
                                  .mask = static_cast<std::int32_t>(traits.mask_token),
                                  .vocabulary = static_cast<std::int32_t>(traits.vocabulary),
                                  .seed = config.run.seed,
                                  .every_epoch = training});
}

// (1, [D,] H, W, C) of the model's images or volumes.
Shape whole_sample(const ModelTraits& model) {
  if (model.image_depth == 0) return {1, model.image_size, model.image_width, model.channels};
  return {1, model.image_depth, model.image_size, model.image_width, model.channels};
}

// What the slabs of a rank of a tensor group cover, if they are not the whole sample. What lies
// around that comes from the other ranks.
std::optional<SpatialBox> part_of_sample(const Config& config, const ModelTraits& model,
                                         int tensor_rank) {
  const Slabs slabs(spatial_split(config.parallel, tensor_rank), whole_sample(model));
  if (!slabs.cut() || config.parallel.inner_ranks() == 1) return {};
  return slabs.own_box();
}

// Paths, groups and target files of validation in place of those of training.
void evaluate_inside(FieldOptions& options) {
  if (!options.validation_inputs.empty()) options.inputs = options.validation_inputs;
  if (!options.validation_target.empty()) options.target = options.validation_target;
  if (!options.validation_files.empty()) options.target_files = options.validation_target_files;
  if (options.validates_inside()) options.group_list = options.validation_group_list;
}

// The data section as the data module takes it, scaling included: reads data.statistics.
FieldOptions field_options(const Config& config, DataPart part, const DataSource& data) {
  const ModelTraits traits = traits_of(config.model);
  FieldOptions options;
  static_cast<FieldSource&>(options) = data;
  options.files = data.place(part).names;
  if (part == DataPart::validation) evaluate_inside(options);
  options.scale = load_scale(data);
  options.depth = traits.image_depth;
  options.height = traits.image_size;
  options.width = traits.image_width;
  options.channel_count = traits.channels;
  options.predicted = traits.targets;
  options.random = part == DataPart::training;
  options.seed = config.run.seed;
  if (part == DataPart::validation && !data.holds_back()) {
    options.split_key.clear();  // of data.files alone
  } else if (data.validation_fraction > 0 || !data.split_key.empty()) {
    options.subset = part == DataPart::training ? Subset::training : Subset::validation;
  }
  return options;
}

std::unique_ptr<Dataset> open_files(Communicator& world, const OneSet& one) {
  if (one.is_held_back() && one.training != nullptr) {
    if (auto rest = one.training->held_back()) return rest;
  }
  FieldOptions options = field_options(one.config, one.part, one.data);
  const auto sharing = static_cast<int>(one.config.parallel.inner_ranks());
  if (const auto box =
          part_of_sample(one.config, traits_of(one.config.model), world.rank() % sharing))
    options.part = {box->begin, {box->extent(0), box->extent(1), box->extent(2)}};
  if (one.training != nullptr && options.class_names.empty())
    options.class_names = one.training->id_names().classes;
  KeptIndexes shared = shared_indexes(world, one.index, options.files, scan_request(options));
  KeptIndexes targets;
  if (!options.target_files.empty())
    targets = shared_indexes(world, targets_index(one.index), options.target_files,
                             target_request(options));
  auto fields = std::make_unique<FieldDataset>(std::move(shared.indexes), options,
                                               std::move(targets.indexes));
  fields->set_touched(shared.touched.empty() ? targets.touched : shared.touched);
  return fields;
}

std::unique_ptr<Dataset> open_image_archives(Communicator& world, const OneSet& one) {
  auto images = open_images(world, image_options(one.config, one.data, one.part), one.index);
  if (!one.config.data.stage.empty() && !images->classes().empty()) {
    fail(ExitCode::config,
         "data.stage: {}: class folders are read in place; remove it, or pack them into archives",
         one.config.data.stage);
  }
  return images;
}

// Indexed by SourceKind.
constexpr std::array<std::unique_ptr<Dataset> (*)(Communicator&, const OneSet&), 3> openers = {
    open_packed, open_files, open_image_archives};

std::unique_ptr<Dataset> open_one(Communicator& world, const OneSet& one) {
  auto data = openers[static_cast<std::size_t>(one.data.kind())](world, one);
  warn_touched(world, one.part, data->touched());
  // Byte images become floats if another source has floats.
  if (one.config.data.float_samples() && data->layout().input_dtype != DType::f32)
    return std::make_unique<FloatImages>(std::move(data), one.data.mean, one.data.std);
  return data;
}

}  // namespace

std::string data_key(const DataConfig& data, DataPart part) {
  return is_mixed(data, part) ? "data.sources" : std::string(data.place(part).key);
}

std::string data_text(const DataConfig& data, DataPart part) {
  std::vector<std::string> names;
  const auto add = [&](const DataSource& source) {
    std::ranges::move(source.place(part).names, std::back_inserter(names));
  };
  if (!is_mixed(data, part)) add(data);
  for (const NamedSource& source : data.sources) {
    if (part == DataPart::training || source.validates()) add(source);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

SampleLayout sample_layout(const Config& config, const ModelTraits& model, int tensor_rank) {
  if (model.labelled_text())
    return text_samples(model.context, text_targets(model), target_width(model));
  if (model.input == InputKind::tokens)
    return token_samples(model.targets_per_sample(), config.data.documents == Documents::separate);
  SampleLayout layout = image_samples(model.image_size, model.image_width, model.channels);
  Shape inputs = whole_sample(model);
  if (const auto box = part_of_sample(config, model, tensor_rank)) inputs = shape_of(inputs, *box);
  layout.inputs = Shape(inputs.extents().subspan(1));
  layout.targets = model.targets.shape;
  if (model.targets.kind == TargetKind::values) layout.target_dtype = DType::f32;
  if (config.data.float_samples()) layout.input_dtype = DType::f32;
  layout.weighted = !config.data.weight.empty() ||
                    std::ranges::any_of(config.data.sources, [](const NamedSource& source) {
                      return !source.weight.empty();
                    });
  return layout;
}

std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config, DataPart part,
                                      const Dataset* training) {
  const auto sets = sets_of(config, part, training);
  if (!is_mixed(config.data, part)) return open_one(world, sets.front());
  std::vector<NamedDataset> sources;
  for (const OneSet& one : sets)
    sources.push_back({one.name, open_one(world, one)});
  return std::make_unique<MixtureDataset>(std::move(sources),
                                          part == DataPart::training ? mixture_recipe(config) : "");
}

std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part) {
  return open_dataset(*make_single_communicator(), config, part);
}

std::unique_ptr<FieldDataset> open_files_alone(const Config& config, float masked) {
  FieldOptions options = field_options(config, DataPart::training, config.data);
  options.masked = masked;
  options.channel_count = 0;
  if (!options.patches) {
    options.height = options.width = 0;
    if (options.depth > 0) options.depth = any_depth;
  }
  const TargetKind kind = options.predicted.kind;
  const Shape any = options.predicted.is_value_map() ? Shape{1, 0} : Shape{};
  options.predicted = {kind == TargetKind::tokens ? TargetKind::label : kind, any, 0};
  return open_fields(options, scanners_here(1));
}

void keep_data_index(const Dataset& dataset, const Config& config, DataPart part) {
  const auto sets = sets_of(config, part, nullptr);
  const auto sources = dataset.sources();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const bool ours = is_mixed(config.data, part) ? sources.size() == sets.size() : sources.empty();
    if (!ours || sets[i].data.kind() == SourceKind::packed || sets[i].is_held_back()) continue;
    (sources.empty() ? dataset : *sources[i].data).keep_index(sets[i].index);
  }
}

}  // namespace trireme
