// SPDX-License-Identifier: Apache-2.0
#include "data/fields/describe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <sstream>

#include "data/arrays/arrays.h"
#include "data/fields/config_text.h"
#include "data/fields/guess.h"
#include "data/fields/storage/field_reader.h"
#include "data/fields/storage/filters.h"
#include "data/fields/well.h"
#include "data/files/file_tree.h"
#include "data/files/parallel.h"
#include "data/hdf5/child.h"
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

std::string keys_of(const Guess& found) {
  return fmt::format("data.inputs: [{}], target: {}, axes: {} and samples: {}", found.input,
                     found.target, found.axes, name_of(found.unit));
}

// The first reading that holds for all files, after what speaks against others, and those nearly as
// likely that hold for the first file.
Description first_that_holds(const std::vector<Guess>& likely, DescribedFiles files,
                             const std::string& first, std::size_t processes) {
  constexpr std::size_t most = 16;
  constexpr int near = 2;
  const Guess* chosen = nullptr;
  Description result;
  std::string problem, others;
  for (const Guess& found : std::span(likely).first(std::min(most, likely.size()))) {
    if (chosen != nullptr && found.score < chosen->score - near) break;
    Description tried = described_as(found, files, processes);
    if (!tried.problem.empty()) {
      if (chosen == nullptr && problem.find(tried.problem) == problem.npos)
        problem += fmt::format("{}with {}: {}", problem.empty() ? "" : "\n", keys_of(found),
                               tried.problem);
    } else if (chosen == nullptr) {
      chosen = &found;
      result = std::move(tried);
      files.names = {first};
    } else {
      others += fmt::format("#   or {}: {}", keys_of(found),
                            tried.text.substr(2, tried.text.find('\n') - 1));
    }
  }
  if (chosen == nullptr) return {"", problem + "; name the label by data.target"};
  std::istringstream lines(problem);
  for (std::string line; std::getline(lines, line);)
    others += fmt::format("#   not {}\n", line);
  if (!others.empty())
    result.text =
        fmt::format("# a guess between readings: {}\n{}{}", keys_of(*chosen), others, result.text);
  return result;
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
      return note.find(": attribute ") == note.npos && !note.ends_with("(a null data space)");
    });
    return fmt::format("{}: no data set that can be read has rows and columns{}", file.path,
                       cause == file.notes.end() ? "" : "; " + *cause);
  }
  const Guess& first = found.likely.front();
  if (found.scattered)
    return fmt::format(
        "{}: {} and {} are samples beside others in data sets of their own; write a group for each "
        "sample, with the same names inside, or all in one data set",
        file.path, first.input, first.target);
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
  constexpr std::array<std::string_view, 9> words{"label", "class", "target", "category", "kind",
                                                  "truth", "mask",  "annot",  "clean"};
  const std::string leaf = lower.substr(lower.find_last_of("/@") + 1);
  return leaf == "y" || leaf == "gt" || leaf.starts_with("y_") || leaf.ends_with("_y") ||
         leaf.starts_with("seg") || leaf.starts_with("sol") || leaf.starts_with("out") ||
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
  const Guesses found = guess_samples(fields, described.arrays.empty() ? files.size() : 1);
  text += beside_text(found);
  if (std::string problem = why_nothing(first, found); !problem.empty()) return {text, problem};
  const Description config = first_that_holds(found.likely, described, first.path, usable_cores());
  return {text + config.text, config.problem};
}

}  // namespace trireme
