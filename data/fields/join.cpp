// SPDX-License-Identifier: Apache-2.0
#include "data/fields/join.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// A target in one file, and the first of its rows among those of all files.
struct Segment {
  const FileIndex* file;
  const StoredField* field;
  std::uint64_t first = 0, rows = 0;
};

void set_file(StoredField& field, const FileIndex& file) {
  if (field.file.empty()) {
    field.file = file.path;
    field.file_bytes = file.state.size;
  }
  for (StoredPart& part : field.parts)
    set_file(part.field, file);
}

// Rows of a segment. Those of stored and of contiguous fields are a field themselves, others a
// virtual one. `single`: the one row of a sample without N, which then has no axis of rows.
StoredField rows_of(const Segment& segment, std::uint64_t first, std::uint64_t count, bool single) {
  StoredField whole = *segment.field;
  set_file(whole, *segment.file);
  const std::uint64_t row = whole.elements() / segment.rows * whole.type.bytes;
  StoredField part = whole;
  part.extents.front() = count;
  const bool plain = whole.filters.empty() && whole.chunk_extents == whole.extents;
  if (!whole.content.empty()) {
    const auto begin = whole.content.begin() + static_cast<std::ptrdiff_t>(first * row);
    part.content.assign(begin, begin + static_cast<std::ptrdiff_t>(count * row));
  } else if (whole.parts.empty() && plain) {
    StoredChunk& chunk = part.chunks.front();
    if (chunk.offset != never_written) chunk.offset += first * row;
    chunk.bytes = count * row;
    part.chunk_extents = part.extents;
  } else if (count < segment.rows) {
    part.chunks.clear();
    part.chunk_extents.clear();
    part.filters.clear();
    StoredPart source{.start = std::vector<std::uint64_t>(whole.extents.size(), 0),
                      .count = part.extents,
                      .from = std::vector<std::uint64_t>(whole.extents.size(), 0),
                      .field = whole};
    source.from.front() = first;
    part.parts = {std::move(source)};
    return part;
  }
  if (!single) return part;
  part.extents.erase(part.extents.begin());
  if (!part.chunk_extents.empty() && plain) part.chunk_extents.erase(part.chunk_extents.begin());
  return part;
}

// The rows of all target files.
class TargetRows {
 public:
  TargetRows(const std::vector<FileIndex>& files, const FieldOptions& options)
      : options_(options), segments_(options.target.size()) {
    for (const FileIndex& file : files) {
      for (const StoredUnit& unit : file.units)
        add(file, unit);
    }
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool named() const { return !options_.target_names.empty(); }

  // The first row of a unit of `rows` samples, of which `before` have been given rows.
  [[nodiscard]] std::uint64_t first_of(const FileIndex& file, const StoredUnit& unit,
                                       std::uint64_t rows, std::uint64_t before) const {
    if (!named()) return before;
    const std::filesystem::path path(unit.group.empty() ? file.path : unit.group);
    if (rows != 1)
      fail(ExitCode::data,
           "{}: holds {} samples, but data.target_names names rows of files or groups with one; "
           "leave it out if the rows are in the samples' order",
           file.path, rows);
    for (const std::string& name : {path.filename().string(), path.stem().string()}) {
      if (const auto found = rows_.find(name); found != rows_.end()) return found->second;
    }
    fail(ExitCode::data,
         "{}: {} of data.target_files names neither {} nor {}; add its row, or leave this file out "
         "of data.files",
         file.path, options_.target_names, path.filename().string(), path.stem().string());
  }

  [[nodiscard]] StoredField take(std::size_t target, std::uint64_t first, std::uint64_t count,
                                 bool single, const std::string& unit) const {
    for (const Segment& segment : segments_[target]) {
      if (first < segment.first || first >= segment.first + segment.rows) continue;
      if (first + count > count_) break;
      if (first + count <= segment.first + segment.rows)
        return rows_of(segment, first - segment.first, count, single);
      fail(ExitCode::data,
           "{}: its {} rows of {} begin in {} and end in another file; keep the rows of a sample "
           "file in one target file",
           unit, count, segment.field->name, segment.file->path);
    }
    fail(ExitCode::data,
         "data.target_files: have {} rows of {}, but {} needs the rows from {} to {}; give a row "
         "for each sample, in the same order as data.files",
         count_, options_.target[target], unit, first, first + count - 1);
  }

 private:
  void add(const FileIndex& file, const StoredUnit& unit) {
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < unit.fields.size(); ++i) {
      const StoredField& field = unit.fields[i];
      const std::uint64_t own = field.extents.empty() ? 0 : field.extents.front();
      if (own == 0 || field.elements() == 0 || (i > 0 && own != rows))
        fail(ExitCode::data,
             "{}: {}: is {}, but a target file needs as many rows along the first axis as its "
             "other fields ({})",
             file.path, field.name,
             field.extents.empty() ? "one number"
                                   : fmt::format("{}", fmt::join(field.extents, " x ")),
             i > 0 ? rows : own);
      rows = own;
      if (i < segments_.size()) {
        segments_[i].push_back({&file, &field, count_, rows});
      } else {
        add_names(file, field);
      }
    }
    count_ += rows;
  }

  void add_names(const FileIndex& file, const StoredField& names) {
    if (!names.is_text() || names.content.size() != names.extents.front() * 4)
      fail(ExitCode::data, "{}: {}: data.target_names needs one text per row", file.path,
           names.name);
    for (std::uint64_t i = 0; i < names.extents.front(); ++i) {
      std::uint32_t number = 0;
      std::memcpy(&number, names.content.data() + i * 4, sizeof(number));
      const std::string name = std::filesystem::path(names.names[number]).filename().string();
      if (!rows_.emplace(name, count_ + i).second)
        fail(ExitCode::data, "{}: {}: names {} twice", file.path, names.name, name);
    }
  }

  const FieldOptions& options_;
  std::vector<std::vector<Segment>> segments_;  // of each target
  std::unordered_map<std::string, std::uint64_t> rows_;
  std::uint64_t count_ = 0;
};

}  // namespace

ScanRequest target_request(const FieldOptions& options) {
  ScanRequest request{.fields = options.target,
                      .outside_links = options.outside_links,
                      .unpack = options.mask_and_scale};
  if (!options.target_names.empty()) request.fields.push_back(options.target_names);
  return request;
}

void join_targets(std::vector<FileIndex>& samples, const std::vector<FileIndex>& targets,
                  const FieldOptions& options) {
  const TargetRows rows(targets, options);
  const std::size_t along = options.axes.substr(0, options.axes.find(' ')).find('N');
  std::uint64_t before = 0;
  for (FileIndex& file : samples) {
    for (StoredUnit& unit : file.units) {
      const std::vector<std::uint64_t>& extents = unit.fields.front().extents;
      // Inputs that lack the axis are refused by the shape of samples.
      const bool single = along >= extents.size();
      const std::uint64_t count = single ? 1 : extents[along];
      if (count == 0) continue;
      const std::uint64_t first = rows.first_of(file, unit, count, before);
      std::vector<StoredField> fields;
      for (std::size_t i = 0; i < options.target.size(); ++i)
        fields.push_back(rows.take(i, first, count, single, file.path + unit.group));
      unit.fields.insert(unit.fields.begin() + static_cast<std::ptrdiff_t>(options.inputs.size()),
                         std::move_iterator(fields.begin()), std::move_iterator(fields.end()));
      before += count;
    }
  }
  if (!rows.named() && before != rows.count())
    fail(ExitCode::data,
         "data.target_files: have {} rows of {}, but data.files hold {} samples; give a row for "
         "each sample, in the same order",
         rows.count(), options.target.front(), before);
}

}  // namespace trireme
