// SPDX-License-Identifier: Apache-2.0
#include "data/fields/describe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>

#include "data/fields/field_dataset.h"
#include "data/fields/file_list.h"
#include "data/fields/statistics.h"
#include "data/fields/storage/filters.h"
#include "data/fields/storage/index_child.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t looked_at = 64 << 20;  // bytes of a data set whose range is printed

bool is_integer(const StoredField& field) {
  return !field.is_text() && (field.type.kind == ElementKind::signed_integer ||
                              field.type.kind == ElementKind::unsigned_integer);
}

bool is_attribute(const StoredField& field) {
  return field.name.find('@') != std::string::npos;
}

// Extents above 1.
std::vector<std::uint64_t> true_extents(const StoredField& field) {
  std::vector<std::uint64_t> extents = field.extents;
  std::erase(extents, 1U);
  return extents;
}

std::string storage_of(const StoredField& field) {
  if (!field.parts.empty()) return fmt::format("virtual, {} sources", field.parts.size());
  if (is_attribute(field)) return "attribute";
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
    const double value = to_double(field.type, bytes.data() + at);
    if (!std::isfinite(value)) {
      ++range.not_finite;
      continue;
    }
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range;
}

// The first few, without what a line cannot show.
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
    if (range.not_finite > 0) line += fmt::format(", {} NaN or infinite", range.not_finite);
  } catch (const Error& error) {
    line += fmt::format("; {}", error.what());
  }
  return line + "\n";
}

// The data set with most elements among those with at least rows and columns.
const StoredField* largest_input(const std::vector<StoredField>& fields) {
  const StoredField* best = nullptr;
  for (const StoredField& field : fields) {
    if (is_attribute(field) || field.is_text() || true_extents(field).size() < 2) continue;
    if (best == nullptr || field.elements() > best->elements()) best = &field;
  }
  return best;
}

// One integer per sample, or a text whose name says so; with such a name before any other.
const StoredField* label_among(const std::vector<StoredField>& fields, std::uint64_t count) {
  const StoredField* found = nullptr;
  for (const StoredField& field : fields) {
    const auto extents = true_extents(field);
    const bool fits = count == 1
                          ? extents.empty()
                          : extents == std::vector<std::uint64_t>{count} && !is_attribute(field);
    const bool may = is_integer(field) || (field.is_text() && sounds_like_label(field.name));
    if (!fits || !may || field.name.starts_with("@_")) continue;
    if (found == nullptr || (!sounds_like_label(found->name) && sounds_like_label(field.name)))
      found = &field;
  }
  return found;
}

// Channels are the shortest of three axes, the last where two are; of four the last or the first
// where that is the shortest, and the others are a volume's.
std::string axes_of(const std::vector<std::uint64_t>& extents, bool samples) {
  const std::string front = samples ? "N" : "";
  const std::size_t axes = extents.size() - (samples ? 1 : 0);
  if (axes == 2) return front + "HW";
  if (axes == 4) {
    const std::size_t shortest = static_cast<std::size_t>(
        std::ranges::min_element(extents.end() - 4, extents.end()) - (extents.end() - 4));
    if (extents.back() == extents[extents.size() - 4 + shortest]) return front + "DHWC";
    return front + (shortest == 0 ? "CDHW" : "TCHW");
  }
  if (axes != 3) return front + "HWC";
  const std::uint64_t first = extents[extents.size() - 3], last = extents.back();
  return front + (first < last ? "CHW" : "HWC");
}

struct Guess {
  SampleUnit unit = SampleUnit::file;
  std::string input, target, axes;
};

std::string without_group(const std::string& name, const std::string& group) {
  return name.substr(group.size() + (name[group.size()] == '/' ? 1 : 0));
}

// Fields below the group that the first of them lies in, under names inside it.
std::vector<StoredField> below(const std::vector<StoredField>& fields, const std::string& group) {
  std::vector<StoredField> inside;
  for (const StoredField& field : fields) {
    if (!field.name.starts_with(group + "/") && !field.name.starts_with(group + "@")) continue;
    inside.push_back(field);
    inside.back().name = without_group(field.name, group);
  }
  return inside;
}

std::optional<Guess> guess(const std::vector<StoredField>& fields) {
  const StoredField* const input = largest_input(fields);
  if (input == nullptr) return std::nullopt;
  Guess found{SampleUnit::file, input->name, "", axes_of(input->extents, false)};
  if (input->extents.size() >= 3) {
    if (const StoredField* const label = label_among(fields, input->extents.front())) {
      found.target = label->name;
      found.unit = SampleUnit::axis;
      found.axes = axes_of(input->extents, true);
      return found;
    }
  }
  // As many data sets of one shape and name in as many groups are samples each.
  const std::string group = input->name.substr(0, input->name.find('/'));
  const auto inside = below(fields, group);
  const auto alike = std::ranges::count_if(fields, [&](const StoredField& field) {
    const auto slash = field.name.find('/');
    return slash != std::string::npos && !is_attribute(field) &&
           field.name.substr(slash) == input->name.substr(group.size()) &&
           field.extents == input->extents;
  });
  if (alike > 1) {
    if (const StoredField* const label = label_among(inside, 1)) {
      found.unit = SampleUnit::group;
      found.input = without_group(input->name, group);
      found.target = label->name;
      return found;
    }
  }
  if (const StoredField* const label = label_among(fields, 1)) found.target = label->name;
  return found;
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

std::string config_text(const std::vector<std::string>& names, const Guess& found,
                        const FieldDataset& data, std::int64_t classes) {
  const SampleShape& shape = data.shape();
  const Looked looked = look(data);
  std::vector<double> means, deviations;
  std::uint64_t not_finite = 0;
  for (const ChannelStatistics& of : looked.channels) {
    means.push_back(of.mean);
    deviations.push_back(of.deviation > 0 ? of.deviation : 1.0);
    not_finite += of.not_finite;
  }
  std::string text = model_text(shape.height(), shape.width(), shape.channels(), classes);
  text += "data:\n";
  text += fmt::format("  files: {}\n", yaml_list(names));
  if (data.size() >= 20) text += "  validation_fraction: 0.1\n";
  text +=
      fmt::format("  samples: {}\n  inputs: {}\n  target: {}\n  axes: {}\n", name_of(found.unit),
                  yaml_list({found.input}), yaml_text(found.target), found.axes);
  if (not_finite > 0) {
    text += fmt::format("  not_finite: zero    # {} values of {} samples are NaN or infinite\n",
                        not_finite, looked.samples);
  }
  text += fmt::format("  scaling: mean_std   # of {} samples; of all: trireme data statistics\n",
                      looked.samples);
  text += fmt::format("  mean: [{:.6g}]\n  std: [{:.6g}]\n", fmt::join(means, ", "),
                      fmt::join(deviations, ", "));
  return text + training_text(data.size());
}

// What training on `found` in all files takes. Raises ExitCode::data where they are no data set.
std::string described_as(const Guess& found, const std::vector<std::string>& names,
                         const std::vector<std::string>& files, std::size_t processes) {
  const FieldOptions options{.files = names,
                             .samples = found.unit,
                             .inputs = {found.input},
                             .target = found.target,
                             .axes = found.axes,
                             .not_finite = NotFinite::keep};
  const FieldDataset data(scan_in_children(files, scan_request(options), processes), options);
  std::int64_t classes = 0;
  for (std::int64_t i = 0; i < data.size(); ++i)
    classes = std::max<std::int64_t>(classes, data.label(i) + 1);
  const std::vector<std::string> names_of_classes = data.id_names().classes;
  if (!names_of_classes.empty()) classes = static_cast<std::int64_t>(names_of_classes.size());
  return fmt::format("# {} samples of {} x {} with {} channels; labels {}\n", data.size(),
                     data.shape().height(), data.shape().width(), data.shape().channels(),
                     names_of_classes.empty() ? fmt::format("0 to {}", classes - 1)
                                              : shown_names(names_of_classes)) +
         config_text(names, found, data, classes);
}

}  // namespace

bool sounds_like_label(const std::string& name) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array<std::string_view, 7> words{"label", "class", "target", "category",
                                                  "kind",  "truth", "y"};
  return std::ranges::any_of(words, [&](std::string_view word) {
    return word.size() > 1 ? lower.find(word) != std::string::npos
                           : lower.ends_with("/y") || lower.ends_with("@y") || lower == "y";
  });
}

std::string yaml_text(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + "\"";
}

std::string yaml_list(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  std::ranges::transform(texts, std::back_inserter(words), yaml_text);
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::string model_text(std::int64_t height, std::int64_t width, std::int64_t channels,
                       std::int64_t classes) {
  const std::int64_t side = std::min(height, width);
  const bool small = side < 64;
  return fmt::format(
      "run: {{directory: runs/described}}\n"
      "model: {{family: resnet, block: basic, stem: {}, stages: {}, width: {}, image_size: {}, "
      "image_width: {}, channels: {}, classes: {}}}\n",
      small ? "small" : "imagenet", side >= 8 ? "[2, 2, 2, 2]" : "[2]", small ? 16 : 64, height,
      width, channels, std::max<std::int64_t>(classes, 2));
}

std::string training_text(std::int64_t samples) {
  std::int64_t batch = 32;
  while (batch > 1 && batch > samples / 2)
    batch /= 2;
  return fmt::format(
      "train: {{steps: 100, global_batch: {}, micro_batch: {}, log_every: 10}}\n"
      "optimizer: {{name: adamw, learning_rate: 1e-3}}\n",
      batch, std::clamp<std::int64_t>(batch / 8, 1, 4));
}

Description describe_files(const std::vector<std::string>& names, std::size_t processes) {
  const std::vector<std::string> files = expand_files(names);
  const FileIndex first = scan_in_children(std::span(files).first(1), ScanRequest{}, 1).front();
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
  const auto found = guess(fields);
  if (!found) return {text, first.path + ": no data set has rows and columns"};
  if (found->target.empty()) {
    return {text,
            fmt::format("{}: the input would be {} with data.axes: {}, but nothing looks like "
                        "a label: an integer per file, per group or along the input's first "
                        "axis; name it by data.target",
                        first.path, found->input, found->axes)};
  }
  try {
    text += described_as(*found, names, files, processes);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return {text, fmt::format("with data.inputs: [{}], target: {}, axes: {} and samples: {}: {}",
                              found->input, found->target, found->axes, name_of(found->unit),
                              error.what())};
  }
  return {text, ""};
}

}  // namespace trireme
