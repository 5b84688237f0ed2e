// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/data_sets.h"

#include <fmt/ranges.h>

#include <unordered_map>

#include "data/fields/field_dataset.h"
#include "data/fields/file_list.h"
#include "data/fields/index_store.h"
#include "data/fields/statistics.h"
#include "data/fields/storage/index_child.h"
#include "models/registry.h"
#include "runtime/base/error.h"
#include "runtime/engine/image_sets.h"
#include "runtime/engine/mixture.h"
#include "runtime/engine/shared_index.h"

namespace trireme {
namespace {

const std::vector<std::string>& files_of(const DataConfig& data, DataPart part) {
  return part == DataPart::training || data.validation_fraction > 0 ? data.files
                                                                    : data.validation_files;
}

// One for the samples of data.files, whoever of them is held back.
std::string index_file(const std::string& run_directory, const DataConfig& data, DataPart part) {
  const bool training =
      data.has_images() ? part == DataPart::training : &files_of(data, part) == &data.files;
  return run_directory + (training ? "/data.index" : "/validation_data.index");
}

// The fields of HDF5 files, as all ranks need them.
std::vector<FileIndex> shared_indexes(Communicator& world, const Config& config,
                                      const FieldOptions& options, DataPart part) {
  const ScanRequest request = scan_request(options);
  const auto bytes_of = [](const FileIndex& index) {
    std::string bytes;
    append_index(bytes, index);
    return bytes;
  };
  IndexWork work;
  work.list = [&] { return expand_files(options.files); };
  work.known = [&](const std::vector<std::string>& files) {
    std::unordered_map<std::string, std::string> known;
    for (const FileIndex& index :
         kept_indexes(index_file(config.run.directory, config.data, part), request, files))
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
  return parse_indexes(bytes);
}

FieldOptions unscaled_options(const Config& config, DataPart part) {
  const DataConfig& data = config.data;
  const ModelTraits traits = traits_of(config.model);
  constexpr double bytes_per_megabyte = 1e6;
  FieldOptions options{
      .files = files_of(data, part),
      .samples = data.samples,
      .inputs = data.inputs,
      .target = data.target,
      .axes = data.axes,
      .channels = data.input_channels,
      .crop = data.crop,
      .window = data.window,
      .window_stride = data.window_stride,
      .steps_ahead = data.steps_ahead,
      .bfloat16 = data.bfloat16,
      .outside_links = data.outside_links,
      .not_finite = data.not_finite,
      .damaged = data.damaged,
      .cache_bytes = static_cast<std::size_t>(data.cache_megabytes * bytes_per_megabyte),
      .height = traits.image_size,
      .width = traits.image_width,
      .channel_count = traits.channels,
      .classes = traits.classes};
  options.validation_fraction = data.validation_fraction;
  if (data.validation_fraction > 0)
    options.subset = part == DataPart::training ? Subset::training : Subset::validation;
  return options;
}

std::unique_ptr<FieldDataset> open_here(const FieldOptions& options) {
  return std::make_unique<FieldDataset>(
      scan_in_children(expand_files(options.files), scan_request(options), scanners_here(1)),
      options);
}

// The data set, or the mixture, that is no HDF5 files.
std::unique_ptr<Dataset> open_named(const Config& config, DataPart part) {
  const DataConfig& data = config.data;
  if (part == DataPart::training && !data.sources.empty()) return open_mixture(config);
  return open_packed(config, part == DataPart::training ? data.path : data.validation_path, part);
}

}  // namespace

std::unique_ptr<Dataset> open_packed(const Config& config, const std::string& path, DataPart part) {
  const ModelTraits traits = traits_of(config.model);
  return Dataset::open(path, {.context = traits.context,
                              .split = part == DataPart::training ? "train" : "validation",
                              .vocabulary = traits.vocabulary,
                              .classes = traits.classes,
                              .image_size = traits.image_size,
                              .image_width = traits.image_width,
                              .channels = traits.channels});
}

std::string data_key(const DataConfig& data, DataPart part) {
  if (part == DataPart::training && !data.sources.empty()) return "data.sources";
  if (data.has_images())
    return part == DataPart::training ? "data.images" : "data.validation_images";
  if (!data.in_place()) return part == DataPart::training ? "data.path" : "data.validation_path";
  return &files_of(data, part) == &data.files ? "data.files" : "data.validation_files";
}

std::string data_text(const DataConfig& data, DataPart part) {
  const bool training = part == DataPart::training;
  if (training && !data.sources.empty()) return fmt::format("{}", fmt::join(data.sources, ", "));
  if (data.has_images())
    return fmt::format("{}", fmt::join(training ? data.images : data.validation_images, ", "));
  if (!data.in_place()) return training ? data.path : data.validation_path;
  if (!training && !data.has_validation()) return "";
  return fmt::format("{}", fmt::join(files_of(data, part), ", "));
}

SampleLayout sample_layout(const Config& config) {
  const ModelTraits model = traits_of(config.model);
  if (model.input == InputKind::tokens) return token_samples(model.context);
  SampleLayout layout = image_samples(model.image_size, model.image_width, model.channels);
  if (config.data.in_place()) layout.input_dtype = DType::f32;
  return layout;
}

FieldOptions field_options(const Config& config, DataPart part) {
  const DataConfig& data = config.data;
  FieldOptions options = unscaled_options(config, part);
  options.scale = load_scale({.scaling = data.scaling,
                              .mean = data.mean,
                              .deviation = data.std,
                              .file = data.statistics,
                              .paths = data.statistics_paths,
                              .channels = data.input_channels});
  return options;
}

std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config, DataPart part) {
  if (config.data.has_images()) {
    return open_images(world, image_options(config, part == DataPart::training),
                       index_file(config.run.directory, config.data, part));
  }
  if (!config.data.in_place()) return open_named(config, part);
  const FieldOptions options = field_options(config, part);
  return std::make_unique<FieldDataset>(shared_indexes(world, config, options, part), options);
}

std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part) {
  if (config.data.has_images()) return open_dataset(*make_single_communicator(), config, part);
  if (!config.data.in_place()) return open_named(config, part);
  return open_here(field_options(config, part));
}

std::shared_ptr<const Dataset> held_back_samples(const Config& config, const Dataset& training) {
  const auto* const fields = dynamic_cast<const FieldDataset*>(&training);
  if (fields == nullptr || config.data.validation_fraction == 0) return nullptr;
  return std::make_shared<FieldDataset>(fields->indexes(),
                                        field_options(config, DataPart::validation));
}

std::unique_ptr<FieldDataset> open_files_alone(const Config& config) {
  FieldOptions options = field_options(config, DataPart::training);
  options.height = options.width = options.channel_count = 0;
  options.classes = 0;
  return open_here(options);
}

void keep_data_index(const std::string& run_directory, const Dataset& dataset, const Config& config,
                     DataPart part) {
  if (const auto* const images = dynamic_cast<const ImageFilesDataset*>(&dataset);
      images != nullptr && config.data.has_images())
    return keep_image_index(index_file(run_directory, config.data, part), *images,
                            config.data.label);
  const auto* const fields = dynamic_cast<const FieldDataset*>(&dataset);
  if (fields == nullptr || !config.data.in_place()) return;
  keep_indexes(index_file(run_directory, config.data, part),
               scan_request(unscaled_options(config, part)), fields->indexes());
}

}  // namespace trireme
