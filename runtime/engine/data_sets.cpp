// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/data_sets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "data/fields/field_dataset.h"
#include "data/fields/file_list.h"
#include "data/fields/index_store.h"
#include "data/fields/statistics.h"
#include "data/fields/storage/index_child.h"
#include "data/sets/float_images.h"
#include "data/sets/mixture_dataset.h"
#include "models/registry.h"
#include "runtime/base/error.h"
#include "runtime/comm/gather_texts.h"
#include "runtime/engine/mixture.h"

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
  std::string name = &files_of(data, part) == &data.files ? "data" : "validation_data";
  for (std::size_t i = 0; i < config.data.sources.size(); ++i) {
    if (&config.data.sources[i] == &data) name += fmt::format(".{}", i);
  }
  return fmt::format("{}/{}.index", config.run.directory, name);
}

// Text that begins with a letter: of an index, or of an error.
std::string scanned(std::span<const std::string> files, const ScanRequest& request,
                    std::size_t processes) {
  try {
    std::string bytes = "i";
    for (const FileIndex& index : scan_in_children(files, request, processes))
      append_index(bytes, index);
    return bytes;
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return std::string("e") + error.what();
  }
}

std::size_t processes_here(int ranks) {
  constexpr std::size_t most = 8;
  if (ranks > 1) return 1;
  return std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most);
}

// In the order of `files`.
std::vector<FileIndex> in_order(std::vector<FileIndex> indexes,
                                const std::vector<std::string>& files) {
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < files.size(); ++i)
    places.emplace(files[i], i);
  std::vector<FileIndex> sorted(files.size());
  for (FileIndex& index : indexes) {
    const auto place = places.find(index.path);
    if (place != places.end()) sorted[place->second] = std::move(index);
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (sorted[i].path != files[i]) fail(ExitCode::data, "{}: no rank has looked at it", files[i]);
  }
  return sorted;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : fmt::format("{}\n", fmt::join(lines, "\n"));
}

// Rank 0 knows which files there are and what is known of them; all look at the rest.
std::vector<FileIndex> shared_indexes(Communicator& world, const std::string& kept,
                                      const FieldOptions& options) {
  const ScanRequest request = scan_request(options);
  std::vector<std::string> files;
  std::string known;
  if (world.rank() == 0) {
    files = expand_files(options.files);
    for (const FileIndex& index : kept_indexes(kept, request, files))
      append_index(known, index);
  }
  files = lines_of(broadcast_text(world, text_of(files), 0));
  std::vector<FileIndex> indexes = parse_indexes(broadcast_text(world, std::move(known), 0));
  std::unordered_set<std::string> there;
  for (const FileIndex& index : indexes)
    there.insert(index.path);
  std::vector<std::string> missing;
  std::ranges::copy_if(files, std::back_inserter(missing),
                       [&](const std::string& file) { return !there.contains(file); });
  if (missing.empty()) return in_order(std::move(indexes), files);
  const auto ranks = static_cast<std::size_t>(world.size()),
             rank = static_cast<std::size_t>(world.rank());
  const std::size_t first = missing.size() * rank / ranks,
                    end = missing.size() * (rank + 1) / ranks;
  for (const std::string& text :
       gather_texts(world, scanned(std::span(missing).subspan(first, end - first), request,
                                   processes_here(world.size())))) {
    if (text.front() == 'e') throw Error(ExitCode::data, text.substr(1));
    for (FileIndex& index : parse_indexes(std::string_view(text).substr(1)))
      indexes.push_back(std::move(index));
  }
  return in_order(std::move(indexes), files);
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
      scan_in_children(expand_files(options.files), scan_request(options), processes_here(1)),
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
  const bool training = part == DataPart::training;
  auto packed = Dataset::open(training ? data.path : data.validation_path,
                              {.context = traits.context,
                               .split = training ? "train" : "validation",
                               .vocabulary = traits.vocabulary,
                               .classes = traits.classes,
                               .image_size = traits.image_size,
                               .image_width = traits.image_width,
                               .channels = traits.channels});
  if (!config.data.float_samples()) return packed;
  return std::make_unique<FloatImages>(std::move(packed), data.mean, data.std);
}

// `world`: null for this process alone. `training`: of the same `data`, or null.
std::unique_ptr<Dataset> open_one(Communicator* world, const Config& config, const DataSource& data,
                                  DataPart part, const Dataset* training) {
  if (!data.in_place()) return open_packed(config, data, part);
  FieldOptions options = field_options(config, data, part);
  const auto* const known = dynamic_cast<const FieldDataset*>(training);
  if (known != nullptr && options.class_names.empty())
    options.class_names = known->id_names().classes;
  if (known != nullptr && options.subset == Subset::validation)
    return std::make_unique<FieldDataset>(known->indexes(), options);
  if (world == nullptr) return open_here(options);
  return std::make_unique<FieldDataset>(
      shared_indexes(*world, index_file(config, data, part), options), options);
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
  if (!data.in_place()) return training ? data.path : data.validation_path;
  if (!training && !data.validates()) return "";
  return fmt::format("{}", fmt::join(files_of(data, part), ", "));
}

}  // namespace

std::string data_key(const DataConfig& data, DataPart part) {
  if (sets_of(data, part).front() != &data) return "data.sources";
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
  if (model.input == InputKind::tokens) return token_samples(model.context);
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
    const auto* const fields = dynamic_cast<const FieldDataset*>(one);
    const bool known = part == DataPart::validation && &files_of(data, part) == &data.files;
    if (fields == nullptr || !data.in_place() || known) continue;
    keep_indexes(index_file(config, data, part), scan_request(unscaled_options(config, data, part)),
                 fields->indexes());
  }
}

}  // namespace trireme
