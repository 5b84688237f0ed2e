// SPDX-License-Identifier: Apache-2.0
#include "data/fields/describe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <unordered_set>

#include "data/arrays/arrays.h"
#include "data/fields/config_text.h"
#include "data/fields/field_dataset.h"
#include "data/fields/guess.h"
#include "data/fields/statistics.h"
#include "data/fields/storage/filters.h"
#include "data/fields/well.h"
#include "data/hdf5/child.h"
#include "data/pack/file_tree.h"
#include "data/pack/parallel.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t looked_at = 64 << 20;  // bytes of a data set to scan for its range

std::string storage_of(const StoredField& field) {
  if (!field.parts.empty()) return fmt::format("virtual, {} sources", field.parts.size());
  if (field.is_attribute()) return "attribute";
  if (field.chunks.empty()) return "compact";
  if (field.chunk_extents == field.extents && field.filters.empty()) return "contiguous";
  std::vector<std::string> filters;
  for (const FilterStep& step : field.filters)
    filters.push_back(filter_name(step));
  return fmt::format("chunks {}{}{}", fmt::join(field.chunk_extents, "x"),
                     filters.empty() ? "" : ", ", fmt::join(filters, "+"));
}

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  std::uint64_t not_finite = 0;
};

Range range_of(const FileIndex& file, const StoredField& field) {
  const FieldReader reader(0);
  Box box;
  std::ranges::copy(field.extents, box.count.begin());
  std::vector<std::byte> bytes(static_cast<std::size_t>(field.elements()) * field.type.bytes);
  reader.read(file, field, box, bytes);
  Range range;
  for (std::size_t at = 0; at < bytes.size(); at += field.type.bytes) {
    const double value = to_double(field.type, field.packing, bytes.data() + at);
    if (!std::isfinite(value)) {
      ++range.not_finite;
      continue;
    }
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

// The first few names, without control characters.
std::string shown_names(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4, longest = 32;
  std::string text = names.size() > 1 ? fmt::format("{} different: ", names.size()) : "";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i].substr(0, longest));
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  return text + (names.size() > most ? ", ..." : "");
}

std::string line_of(const FileIndex& file, const StoredField& field) {
  const std::string_view one = field.is_text() ? "one text" : "one number";
  std::string line =
      fmt::format("#   {:<28} {:<14} {:<18} {}", field.name,
                  field.extents.empty() ? one : fmt::format("{}", fmt::join(field.extents, " x ")),
                  field.is_text() ? "text" : name_of(field.type), storage_of(field));
  if (field.is_text()) return line + fmt::format(", {}\n", shown_names(field.names));
  if (field.elements() * field.type.bytes > looked_at || field.elements() == 0) return line + "\n";
  try {
    require_known_filters(field.name, field.filters);
    const Range range = range_of(file, field);
    if (range.low <= range.high) line += fmt::format(", {:.6g} to {:.6g}", range.low, range.high);
    if (range.not_finite > 0)
      line += fmt::format(", {} missing, NaN or infinite", range.not_finite);
  } catch (const Error& error) {
    line += fmt::format("; {}", error.what());
  }
  return line + "\n";
}

// Evenly spread samples, at most `most` of them.
struct Looked {
  std::vector<ChannelStatistics> channels;
  std::int64_t samples = 0;
};

Looked look(const FieldDataset& data) {
  constexpr std::int64_t most = 64;
  Looked result;
  result.samples = std::min(most, data.size());
  result.channels = statistics_of(data, result.samples);
  return result;
}

// Along which axis two ranks that share a sample read and decode the least: whole chunks, or of
// unchunked data what lies together. The outer axis of equal ones.
std::string cut_text(const FieldDataset& data) {
  const StoredField& input = data.indexes().front().units.front().fields.front();
  const AxisPlaces& places = data.shape().places();
  const bool chunked = input.chunk_extents != input.extents || !input.filters.empty();
  std::string_view best;
  double least = 2;
  int outermost = 0;
  for (const auto& [name, place] :
       {std::pair{"depth", places.depth}, std::pair{"height", places.row},
        std::pair{"width", places.column}}) {
    if (place < 0 || !input.parts.empty()) continue;
    const auto axis = static_cast<std::size_t>(place);
    const std::uint64_t extent = input.extents[axis], half = (extent + 1) / 2;
    const std::uint64_t chunk = chunked ? input.chunk_extents[axis] : 1;
    const std::uint64_t read = std::min((half + chunk - 1) / chunk * chunk, extent);
    const double share = static_cast<double>(read) / static_cast<double>(extent);
    if (share > least || (share == least && place > outermost)) continue;
    best = name;
    least = share;
    outermost = place;
  }
  if (best.empty()) return "";
  return fmt::format(
      "# two ranks that share samples (parallel.spatial) read {:.0f} % each if they "
      "cut the {}\n",
      100 * least, best);
}

// Brings numbers to predict to -1 to 1 unless they are about there.
std::string target_scale_text(const FieldDataset& data) {
  constexpr double largest = std::numeric_limits<double>::max();
  std::vector<std::int32_t> bits(static_cast<std::size_t>(data.layout().targets.count()));
  std::vector<double> low(bits.size(), largest), high(bits.size(), -largest);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read_targets(i, bits);
    for (std::size_t k = 0; k < bits.size(); ++k) {
      const double value = std::bit_cast<float>(bits[k]);
      if (!std::isfinite(value)) continue;
      low[k] = std::min(low[k], value);
      high[k] = std::max(high[k], value);
    }
  }
  constexpr double about_one = 1.2;
  bool scaled = true;
  for (std::size_t k = 0; k < bits.size(); ++k) {
    if (low[k] > high[k]) low[k] = high[k] = 0;  // missing in all samples
    scaled = scaled && low[k] >= -about_one && high[k] <= about_one;
    const double middle = (low[k] + high[k]) / 2, half = (high[k] - low[k]) / 2;
    low[k] = middle;
    high[k] = half > 0 ? half : 1;
  }
  if (scaled) return "";
  return fmt::format(
      "  target_mean: [{:.6g}]\n  target_std: [{:.6g}]    # all are then from about -1 to 1\n",
      fmt::join(low, ", "), fmt::join(high, ", "));
}

// Of labels, or of maps: there a single 255 above them means no class.
struct Classes {
  std::int64_t classes = 0;
  bool ignored = false;
  std::string problem;  // why there are none, or ""
};

std::string config_text(const FieldOptions& options, const FieldDataset& data, const Classes& of) {
  const Looked looked = look(data);
  std::vector<double> means, deviations;
  std::uint64_t not_finite = 0;
  for (const ChannelStatistics& of : looked.channels) {
    means.push_back(of.mean);
    deviations.push_back(of.deviation > 0 ? of.deviation : 1.0);
    not_finite += of.not_finite;
  }
  std::string text =
      run_and_model_text(data, options, of.classes) + "data:\n" + place_text(data, options);
  if (not_finite > 0) {
    text += fmt::format(
        "  not_finite: zero    # {} values of {} samples are missing, NaN or infinite\n",
        not_finite, looked.samples);
  }
  if (of.ignored) text += "  ignored_class: 255\n";
  if (options.predicted.kind == TargetKind::values) text += target_scale_text(data);
  if (data.input_transform() == InputTransform::log1p)
    text += "  transform: log1p    # counts, from 0 on\n";
  text += fmt::format(
      "  scaling: mean_std   # of {} samples; of all: trireme data inspect --statistics\n",
      looked.samples);
  text += fmt::format("  mean: [{:.6g}]\n  std: [{:.6g}]\n", fmt::join(means, ", "),
                      fmt::join(deviations, ", "));
  return text + training_text(data.size());
}

// The labels of all samples.
Classes look_at_labels(const FieldDataset& data, const std::string& name) {
  Classes labels;
  std::unordered_set<std::int64_t> values;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::int32_t value = 0;
    data.read_targets(i, {&value, 1});
    values.insert(value);
    labels.classes = std::max<std::int64_t>(labels.classes, value + 1);
  }
  const std::vector<std::string> names = data.id_names().classes;
  if (!names.empty()) labels.classes = static_cast<std::int64_t>(names.size());
  const auto different = static_cast<std::int64_t>(values.size());
  if (data.size() > 1 && different == 1) {
    labels.problem = fmt::format("all {} samples have the label {}", data.size(),
                                 names.empty() ? fmt::format("{}", *values.begin()) : names[0]);
  } else if (data.size() > 2 && different == data.size() && !sounds_like_label(name)) {
    labels.problem = "every sample has another value: these are numbers of samples, not classes";
  }
  return labels;
}

Description described_values(const FieldDataset& data, FieldOptions options) {
  const StoredField& input = data.indexes().front().units.front().fields.front();
  const auto counts = [](const ChannelStatistics& of) { return of.minimum >= 0; };
  const bool whole = input.type.kind == ElementKind::signed_integer ||
                     input.type.kind == ElementKind::unsigned_integer;
  if (whole && data.shape().is_volume() && std::ranges::all_of(look(data).channels, counts))
    options.transform = InputTransform::log1p;
  FieldOptions joined = options;
  joined.target_files.clear();
  const FieldDataset transformed(data.indexes(), joined);
  return {fmt::format("# {} samples of {} with {} channels; {} numbers to predict\n", data.size(),
                      data.shape().size_text(), data.shape().channels(),
                      data.layout().targets.count()) +
              cut_text(data) + config_text(options, transformed, {}),
          ""};
}

Classes look_at_maps(const FieldDataset& data) {
  constexpr std::int64_t looked = 64, most = 1000, no_class = 255;
  const std::int64_t samples = std::min(looked, data.size());
  std::vector<std::int32_t> map(static_cast<std::size_t>(data.layout().targets.count()));
  std::set<std::int64_t> found;
  for (std::int64_t i = 0; i < samples; ++i) {
    data.read_targets(i * data.size() / samples, map);
    for (std::size_t k = 0; k < map.size(); ++k) {
      if (map[k] >= 0 && (k == 0 || map[k] != map[k - 1])) found.insert(map[k]);
    }
  }
  Classes result;
  result.ignored = found.size() > 2 && *found.rbegin() == no_class && !found.contains(no_class - 1);
  if (result.ignored) found.erase(no_class);
  if (!found.empty()) result.classes = *found.rbegin() + 1;
  if (found.size() < 2) result.problem = fmt::format("its {} maps have one class or none", samples);
  if (result.classes > most)
    result.problem = fmt::format("holds {}, too much for a class", result.classes - 1);
  return result;
}

Description described_maps(const FieldDataset& data, const FieldOptions& options) {
  const Classes maps = look_at_maps(data);
  if (!maps.problem.empty()) return {"", maps.problem};
  return {fmt::format("# {} samples of {} with {} channels; maps of classes 0 to {}\n", data.size(),
                      data.shape().size_text(), data.shape().channels(), maps.classes - 1) +
              cut_text(data) + config_text(options, data, maps),
          ""};
}

// The files of a description: names as the user gave them, or .npy files, each with one of the data
// sets that a guess names.
struct DescribedFiles {
  std::vector<std::string> names{};
  std::map<std::string, std::string> arrays{};  // by a guess's name
};

FieldOptions options_of(const Guess& found, const DescribedFiles& files) {
  FieldOptions options{{.files = files.names,
                        .samples = found.unit,
                        .groups = found.groups,
                        .inputs = {found.input},
                        .target = {found.target},
                        .axes = found.axes,
                        .not_finite = NotFinite::keep}};
  if (found.is_volume()) options.depth = any_depth;
  options.predicted.kind = found.predicted;
  options.group_list = found.group_list;
  options.validation_group_list = found.validation_group_list;
  const bool validates = !found.validation_input.empty();
  if (files.arrays.empty()) {
    if (!validates) return options;
    options.validation_inputs = {found.validation_input};
    options.validation_target = {found.validation_target};
    return options;
  }
  options.inputs = options.target = {"array"};
  options.files = {files.arrays.at(found.input)};
  options.target_files = {files.arrays.at(found.target)};
  if (!validates) return options;
  options.validation_files = {files.arrays.at(found.validation_input)};
  options.validation_target_files = {files.arrays.at(found.validation_target)};
  return options;
}

// A config that trains on `found` in all files, or why there is none. Raises ExitCode::data if they
// form no data set.
Description described_as(const Guess& found, const DescribedFiles& files, std::size_t processes) {
  const FieldOptions options = options_of(found, files);
  const std::unique_ptr<FieldDataset> opened = open_fields(options, processes);
  const FieldDataset& data = *opened;
  if (found.predicted == TargetKind::values) return described_values(data, options);
  if (found.predicted == TargetKind::pixels) return described_maps(data, options);
  Classes labels = look_at_labels(data, found.target);
  if (!labels.problem.empty()) return {"", labels.problem};
  const std::vector<std::string> class_names = data.id_names().classes;
  return {fmt::format("# {} samples of {} x {} with {} channels; labels {}\n", data.size(),
                      data.shape().height(), data.shape().width(), data.shape().channels(),
                      class_names.empty() ? fmt::format("0 to {}", labels.classes - 1)
                                          : shown_names(class_names)) +
              config_text(options, data, labels),
          ""};
}

// The first of the likely labels that holds for all files.
Description first_that_holds(const std::vector<Guess>& likely, const DescribedFiles& files,
                             std::size_t processes) {
  constexpr std::size_t most = 8;
  std::string problem;
  for (const Guess& found : std::span(likely).first(std::min(most, likely.size()))) {
    Description tried;
    try {
      tried = described_as(found, files, processes);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      tried.problem = error.what();
    }
    if (tried.problem.empty()) return tried;
    problem += fmt::format("{}with data.inputs: [{}], target: {}, axes: {} and samples: {}: {}",
                           problem.empty() ? "" : "\n", found.input, found.target, found.axes,
                           name_of(found.unit), tried.problem);
  }
  return {"", problem + "; name the label by data.target"};
}

// Several .npy files as one listing, by their names without ending.
void list_arrays(const std::vector<std::string>& files, FileIndex& listing, DescribedFiles& to) {
  constexpr std::size_t most = 64;
  std::vector<StoredField>& fields = listing.units.front().fields;
  fields.clear();
  for (const std::string& file : std::span(files).first(std::min(most, files.size()))) {
    FileIndex one = Hdf5Child::shared()->index(file, ScanRequest{});
    if (one.units.front().fields.size() != 1 || !file.ends_with(".npy")) continue;
    StoredField& field = fields.emplace_back(std::move(one.units.front().fields.front()));
    field.name = std::filesystem::path(file).stem().string();
    field.file = file;
    field.file_bytes = one.state.size;
    to.arrays[field.name] = file;
  }
}

// The file's other objects, which a config leaves out.
std::string beside_text(const Guesses& found) {
  constexpr std::size_t most = 4;
  if (found.beside.empty()) return "";
  const std::size_t shown = std::min(most, found.beside.size());
  return fmt::format(
      "# not used: {}{}. A validation set is a separate file with the same paths (h5copy -p -i "
      "FILE -o NEW -s /GROUP -d /GROUP), named by data.validation_files\n",
      fmt::join(std::span(found.beside).first(shown), ", "),
      shown < found.beside.size() ? fmt::format(" and {} more", found.beside.size() - shown) : "");
}

// Why no input is likely, or "".
std::string why_nothing(const FileIndex& file, const Guesses& found) {
  if (found.likely.empty()) {
    const auto cause = std::ranges::find_if(file.notes, [](const std::string& note) {
      return note.find(": attribute ") == std::string::npos;
    });
    return fmt::format("{}: no data set that can be read has rows and columns{}", file.path,
                       cause == file.notes.end() ? "" : "; " + *cause);
  }
  const Guess& first = found.likely.front();
  if (!first.target.empty()) return "";
  return fmt::format(
      "{}: the input would be {} with data.axes: {}, but nothing looks like a label: an integer "
      "per file, per group or along the input's first axis; name it by data.target",
      file.path, first.input, first.axes);
}

}  // namespace

bool sounds_like_label(const std::string& name) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 6> words{"label",    "class", "target",
                                                  "category", "kind",  "truth"};
  const std::string leaf = lower.substr(lower.find_last_of("/@") + 1);
  return leaf == "y" || leaf.starts_with("y_") ||
         std::ranges::any_of(
             words, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

bool names_files(const std::string& name) {
  try {
    const std::string first = expand_files({name}).front();
    if (is_array_file(first)) return true;
    const ShardFacts facts = Hdf5Child::shared()->shard(first);
    return std::ranges::find(facts.attributes, "format", &ShardAttribute::name) ==
           facts.attributes.end();
  } catch (const Error&) {  // no HDF5 file, or a damaged one
    return false;
  }
}

Description describe_files(const DataPlace& place) {
  const std::vector<std::string> files = expand_files(place.names);
  DescribedFiles described{.names = place.names};
  FileIndex first = scan_in_children(std::span(files).first(1), ScanRequest{}, 1).front();
  if (files.size() > 1 && files.front().ends_with(".npy")) list_arrays(files, first, described);
  const std::vector<StoredField>& fields = first.units.front().fields;
  std::string text = fmt::format("# {} file{}; the first, {} ({} bytes), holds\n", files.size(),
                                 files.size() == 1 ? "" : "s", first.path, first.state.size);
  constexpr std::size_t most_lines = 64;
  for (std::size_t i = 0; i < std::min(fields.size(), most_lines); ++i)
    text += line_of(first, fields[i]);
  if (fields.size() > most_lines)
    text += fmt::format("#   and {} more\n", fields.size() - most_lines);
  for (std::size_t i = 0; i < std::min(first.notes.size(), most_lines); ++i)
    text += fmt::format("#   not read: {}\n", first.notes[i]);
  if (const auto well = well_fields(first)) {
    const Description config = described_well(*well, place.names, files);
    return {text + well->text + config.text, config.problem};
  }
  const Guesses found = guess_samples(fields);
  text += beside_text(found);
  if (std::string problem = why_nothing(first, found); !problem.empty()) return {text, problem};
  const Description config = first_that_holds(found.likely, described, usable_cores());
  return {text + config.text, config.problem};
}

}  // namespace trireme
