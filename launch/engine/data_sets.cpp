// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/data_sets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "data/fields/field_dataset.h"
#include "data/fields/file_list.h"
#include "data/fields/index_store.h"
#include "data/fields/statistics.h"
#include "data/hdf5/child.h"
#include "data/sets/float_images.h"
#include "data/sets/masked_tokens.h"
#include "data/sets/mixture_dataset.h"
#include "launch/engine/image_sets.h"
#include "launch/engine/mixture.h"
#include "launch/engine/shared_index.h"
#include "models/registry.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/gather_texts.h"

namespace trireme {
namespace {

const std::vector<std::string>& files_of(const DataSource& data, DataPart part) {
  const bool shared = data.validation_fraction > 0 || !data.validation_values.empty();
  return part == DataPart::training || shared ? data.files : data.validation_files;
}

// The data sets that a part is made of: `data` itself, or those of its sources that have such a
// part, each a NamedSource.
std::vector<const DataSource*> sets_of(const DataConfig& data, DataPart part) {
  const bool training = part == DataPart::training;
  if (training ? data.sources.empty() : !data.sources_validate()) return {&data};
  std::vector<const DataSource*> sets;
  for (const NamedSource& source : data.sources) {
    if (training || source.validates()) sets.push_back(&source);
  }
  return sets;
}

// One for the samples of data.files, whoever of them is held back.
std::string index_file(const Config& config, const DataSource& data, DataPart part) {
  const bool training =
      data.has_images() ? part == DataPart::training : &files_of(data, part) == &data.files;
  std::string name = training ? "data" : "validation_data";
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    if (&config.data.sources[i] == &data) name += fmt::format(".{}", i);
  }
  return fmt::format("{}/{}.index", config.run.directory, name);
}

// The fields of HDF5 files, as all ranks need them.
KeptIndexes shared_indexes(Communicator& world, const std::string& kept,
                           const FieldOptions& options) {
  const ScanRequest request = scan_request(options);
  const auto bytes_of = [](const FileIndex& index) {
    std::string bytes;
    append_index(bytes, index);
    return bytes;
  };
  IndexWork work;
  std::string touched;
  work.list = [&] { return expand_files(options.files); };
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

FieldOptions unscaled_options(const Config& config, const DataSource& data, DataPart part) {
  const ModelTraits traits = traits_of(config.model);
  constexpr double bytes_per_megabyte = 1e6;
  FieldOptions options{
      .files = files_of(data, part),
      .samples = data.samples,
      .inputs = data.inputs,
      .target = data.target,
      .mask = data.mask,
      .weight = data.weight,
      .axes = data.axes,
      .channels = data.input_channels,
      .crop = data.crop,
      .window = data.window,
      .window_stride = data.window_stride,
      .steps_ahead = data.steps_ahead,
      .bfloat16 = data.bfloat16,
      .mask_and_scale = data.mask_and_scale,
      .outside_links = data.outside_links,
      .not_finite = data.not_finite,
      .damaged = data.damaged,
      .cache_bytes = static_cast<std::size_t>(data.cache_megabytes * bytes_per_megabyte),
      .height = traits.image_size,
      .width = traits.image_width,
      .channel_count = traits.channels,
      .classes = traits.classes};
  options.validation_fraction = data.validation_fraction;
  options.class_names = data.class_names;
  const bool split = data.validation_fraction > 0 || !data.split_key.empty();
  if (!split || &files_of(data, part) != &data.files) return options;
  options.subset = part == DataPart::training ? Subset::training : Subset::validation;
  options.split_key = data.split_key;
  options.validation_values = data.validation_values;
  options.test_values = data.test_values;
  return options;
}

std::unique_ptr<FieldDataset> open_here(const FieldOptions& options) {
  return std::make_unique<FieldDataset>(
      scan_in_children(expand_files(options.files), scan_request(options), scanners_here(1)),
      options);
}

// The data section as the data room takes it, scaling included: reads data.statistics.
FieldOptions field_options(const Config& config, const DataSource& data, DataPart part) {
  FieldOptions options = unscaled_options(config, data, part);
  options.scale = load_scale({.scaling = data.scaling,
                              .mean = data.mean,
                              .deviation = data.std,
                              .file = data.statistics,
                              .paths = data.statistics_paths,
                              .channels = data.input_channels});
  return options;
}

// Packed shards or tokens of Megatron-LM.
std::unique_ptr<Dataset> open_packed(const Config& config, const DataSource& data, DataPart part) {
  const ModelTraits traits = traits_of(config.model);
  constexpr std::int64_t bytes = 256;
  const bool training = part == DataPart::training;
  auto set = Dataset::open(training ? data.path : data.validation_path,
                           {.context = traits.context,
                            .split = training ? "train" : "validation",
                            .vocabulary = traits.vocabulary,
                            .classes = traits.classes,
                            .image_size = traits.image_size,
                            .image_width = traits.image_width,
                            .channels = traits.channels,
                            .documents = config.data.documents == Documents::separate});
  if (traits.mask_token == 0) return set;
  if (!set->shards().empty() && set->shards().front().header.counted)
    fail(ExitCode::config,
         "{}: {} has a loss mask, and model.family: {} asks for tokens that it draws itself; pack "
         "the texts without prompts and chats",
         data_key(config.data, part), training ? data.path : data.validation_path,
         config.model.family);
  if (!set->shards().empty() && set->shards().front().header.tokenizer == "bytes" &&
      traits.mask_token < bytes)
    fail(ExitCode::config,
         "model.mask_token: {} is a byte of the text in {}; use {}, with model.vocabulary: {} or "
         "more",
         traits.mask_token, training ? data.path : data.validation_path, bytes, bytes + 1);
  return std::make_unique<MaskedTokens>(
      std::move(set), MaskOptions{.share = traits.mask_share,
                                  .mask = static_cast<std::int32_t>(traits.mask_token),
                                  .vocabulary = static_cast<std::int32_t>(traits.vocabulary),
                                  .seed = config.run.seed,
                                  .every_epoch = training});
}

// Images of bytes, as they lie beside numbers of files where there are some.
std::unique_ptr<Dataset> beside_files(std::unique_ptr<Dataset> images, const Config& config,
                                      const DataSource& data) {
  if (!config.data.float_samples()) return images;
  return std::make_unique<FloatImages>(std::move(images), data.mean, data.std);
}

// What of training data ends the run (state/starting_point.h).
void warn_touched(const Communicator& world, DataPart part, const std::string& touched) {
  if (part != DataPart::validation || touched.empty() || world.rank() != 0) return;
  log::get("data").warn(
      "{} written to since this run last looked, with the same size: losses over them before and "
      "after are perhaps not of the same numbers",
      touched);
}

// `world`: null for this process alone. `training`: of the same `data`, or null.
std::unique_ptr<Dataset> open_one(Communicator* world, const Config& config, const DataSource& data,
                                  DataPart part, const Dataset* training) {
  if (data.has_images()) {
    const auto alone = world == nullptr ? make_single_communicator() : nullptr;
    auto images = open_images(world == nullptr ? *alone : *world,
                              image_options(config, data, part == DataPart::training),
                              index_file(config, data, part));
    if (world != nullptr) warn_touched(*world, part, images->touched());
    if (!config.data.stage.empty() && !images->classes().empty()) {
      fail(ExitCode::config,
           "data.stage: {}: class folders are read where they lie; remove it, or make archives of "
           "them",
           config.data.stage);
    }
    return beside_files(std::move(images), config, data);
  }
  if (!data.in_place()) return beside_files(open_packed(config, data, part), config, data);
  FieldOptions options = field_options(config, data, part);
  const auto* const known = dynamic_cast<const FieldDataset*>(training);
  if (known != nullptr && options.class_names.empty())
    options.class_names = known->id_names().classes;
  if (known != nullptr && options.subset == Subset::validation)
    return std::make_unique<FieldDataset>(known->indexes(), options);
  if (world == nullptr) return open_here(options);
  KeptIndexes shared = shared_indexes(*world, index_file(config, data, part), options);
  warn_touched(*world, part, shared.touched);
  auto fields = std::make_unique<FieldDataset>(std::move(shared.indexes), options);
  fields->set_touched(std::move(shared.touched));
  return fields;
}

std::unique_ptr<Dataset> open_any(Communicator* world, const Config& config, DataPart part,
                                  const Dataset* training) {
  const DataConfig& data = config.data;
  const auto sets = sets_of(data, part);
  if (sets.front() == &data) return open_one(world, config, data, part, training);
  const auto* const mixture = dynamic_cast<const MixtureDataset*>(training);
  std::vector<MixtureDataset::Source> sources;
  for (std::size_t i = 0; i < data.sources.size(); ++i) {
    const NamedSource& source = data.sources[i];
    if (std::ranges::find(sets, &source) == sets.end()) continue;
    const bool known = mixture != nullptr && mixture->sources().size() == data.sources.size();
    sources.push_back(
        {source.label(), open_one(world, config, source, part,
                                  known ? mixture->sources()[i].data.get() : nullptr)});
  }
  return std::make_unique<MixtureDataset>(std::move(sources),
                                          part == DataPart::training ? mixture_recipe(config) : "");
}

std::string text_of(const DataSource& data, DataPart part) {
  const bool training = part == DataPart::training;
  if (data.has_images())
    return fmt::format("{}", fmt::join(training ? data.images : data.validation_images, ", "));
  if (!data.in_place()) return training ? data.path : data.validation_path;
  if (!training && !data.validates()) return "";
  return fmt::format("{}", fmt::join(files_of(data, part), ", "));
}

}  // namespace

std::string data_key(const DataConfig& data, DataPart part) {
  if (sets_of(data, part).front() != &data) return "data.sources";
  if (data.has_images())
    return part == DataPart::training ? "data.images" : "data.validation_images";
  if (!data.in_place()) return part == DataPart::training ? "data.path" : "data.validation_path";
  return &files_of(data, part) == &data.files ? "data.files" : "data.validation_files";
}

std::string data_text(const DataConfig& data, DataPart part) {
  std::vector<std::string> texts;
  for (const DataSource* const set : sets_of(data, part))
    texts.push_back(text_of(*set, part));
  return fmt::format("{}", fmt::join(texts, ", "));
}

SampleLayout sample_layout(const Config& config) {
  const ModelTraits model = traits_of(config.model);
  if (model.input == InputKind::tokens)
    return token_samples(model.context, config.data.documents == Documents::separate);
  SampleLayout layout = image_samples(model.image_size, model.image_width, model.channels);
  if (config.data.float_samples()) layout.input_dtype = DType::f32;
  layout.weighted = !config.data.weight.empty() ||
                    std::ranges::any_of(config.data.sources, [](const NamedSource& source) {
                      return !source.weight.empty();
                    });
  return layout;
}

std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config, DataPart part,
                                      const Dataset* training) {
  return open_any(&world, config, part, training);
}

std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part) {
  return open_any(nullptr, config, part, nullptr);
}

std::unique_ptr<FieldDataset> open_files_alone(const Config& config, float masked) {
  FieldOptions options = field_options(config, config.data, DataPart::training);
  options.masked = masked;
  options.height = options.width = options.channel_count = 0;
  options.classes = 0;
  return open_here(options);
}

void keep_data_index(const Dataset& dataset, const Config& config, DataPart part) {
  const auto* const mixture = dynamic_cast<const MixtureDataset*>(&dataset);
  const auto sets = sets_of(config.data, part);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const DataSource& data = *sets[i];
    const Dataset* one = &dataset;
    if (mixture != nullptr && mixture->sources().size() == sets.size())
      one = mixture->sources()[i].data.get();
    if (const auto* const images = dynamic_cast<const ImageFilesDataset*>(one);
        images != nullptr && data.has_images())
      keep_image_index(index_file(config, data, part), *images, data.label);
    const auto* const fields = dynamic_cast<const FieldDataset*>(one);
    const bool known = part == DataPart::validation && &files_of(data, part) == &data.files;
    if (fields == nullptr || !data.in_place() || known) continue;
    keep_indexes(index_file(config, data, part), scan_request(unscaled_options(config, data, part)),
                 fields->indexes());
  }
}

}  // namespace trireme
