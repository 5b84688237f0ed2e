// SPDX-License-Identifier: Apache-2.0
#include "data/fields/index_store.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "data/index_archive.h"
#include "data/shard/file_stamp.h"
#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// The request of the indexes, as one line.
std::string line_of(const ScanRequest& request) {
  std::string line =
      fmt::format("trireme-index 4 {}\t{}\t{} {} {}", request.groups, request.group_list,
                  request.outside_links, request.bfloat16, request.unpack);
  for (const std::string& field : request.fields)
    line += "\t" + field;
  return line;
}

// The stamp of a file that an index uses.
struct KeptStamp {
  std::string path;
  std::uint64_t size = 0;
  std::int64_t modified = 0, changed = 0;
};

template <typename Archive>
void transfer(Archive& archive, KeptStamp& stamp) {
  archive(stamp.path);
  archive(stamp.size);
  archive(stamp.modified);
  archive(stamp.changed);
}

KeptStamp stamp_now(const std::string& path) {
  const FileStamp now = stamp_of_file(path);
  return {path, now.size, now.modified, now.changed};
}

// The files of an index: its own, and targets of links and virtual data sets.
std::set<std::string> files_of(const FileIndex& index) {
  std::set<std::string> files{index.path};
  const auto add = [&](const auto& self, const StoredField& field) -> void {
    if (!field.file.empty()) files.insert(field.file);
    for (const StoredPart& part : field.parts)
      self(self, part.field);
  };
  for (const StoredUnit& unit : index.units) {
    for (const StoredField& field : unit.fields)
      add(add, field);
  }
  return files;
}

// The stored stamps and the current state of their files, each checked once.
class Stamps {
 public:
  explicit Stamps(std::vector<KeptStamp> kept) {
    for (KeptStamp& stamp : kept)
      kept_.emplace(stamp.path, std::move(stamp));
  }

  // Whether `file` is unchanged.
  bool holds(const std::string& file) {
    const auto [known, fresh] = holds_.try_emplace(file, false);
    if (fresh) known->second = compare(file);
    return known->second;
  }
  [[nodiscard]] const std::vector<std::string>& touched() const { return touched_; }
  [[nodiscard]] const std::vector<std::string>& moved() const { return moved_; }

 private:
  bool compare(const std::string& file) {
    const auto before = kept_.find(file);
    if (before == kept_.end()) return false;
    const KeptStamp now = stamp_now(file);
    if (now.size != before->second.size) return false;
    if (now.modified != before->second.modified) {
      touched_.push_back(file);
    } else if (now.changed != before->second.changed) {
      moved_.push_back(file);
    }
    return now.modified == before->second.modified && now.changed == before->second.changed;
  }

  std::unordered_map<std::string, KeptStamp> kept_;
  std::unordered_map<std::string, bool> holds_;
  std::vector<std::string> touched_, moved_;
};

}  // namespace

std::string first_of(const std::vector<std::string>& files) {
  if (files.empty()) return "";
  if (files.size() == 1) return files.front() + " was";
  return fmt::format("{} and {} more were", files.front(), files.size() - 1);
}

void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes) {
  std::set<std::string> files;
  for (const FileIndex& index : indexes)
    files.merge(files_of(index));
  std::vector<KeptStamp> stamps;
  for (const std::string& file : files)
    stamps.push_back(stamp_now(file));
  // An index's own file has the state at indexing.
  for (const FileIndex& index : indexes) {
    const auto at = std::ranges::lower_bound(stamps, index.path, {}, &KeptStamp::path);
    at->modified = index.state.modified;
  }
  std::string bytes, table;
  IndexWriter{table}(stamps);
  IndexWriter{bytes}(table);
  for (const FileIndex& index : indexes)
    append_index(bytes, index);
  keep_index_file(path, line_of(request), bytes);
}

KeptIndexes kept_indexes(const std::string& path, const ScanRequest& request,
                         std::span<const std::string> files) {
  KeptIndexes kept;
  try {
    const std::string bytes = kept_index_file(path, line_of(request));
    if (bytes.empty()) return kept;
    constexpr std::string_view subject = "a kept index of HDF5 files";
    std::string table;
    IndexParser{bytes, subject}(table);
    std::vector<KeptStamp> known;
    IndexParser{table, subject}(known);
    Stamps stamps(std::move(known));
    const std::unordered_set<std::string> wanted(files.begin(), files.end());
    for (FileIndex& index :
         parse_indexes(std::string_view(bytes).substr(sizeof(std::uint64_t) + table.size()))) {
      if (!wanted.contains(index.path)) continue;
      bool same = true;
      for (const std::string& file : files_of(index))
        same = stamps.holds(file) && same;
      if (same) kept.indexes.push_back(std::move(index));
    }
    kept.touched = first_of(stamps.touched());
    if (!stamps.moved().empty()) {
      log::get("data").warn(
          "{} moved, restored or written to since this run last looked (new ctime, same size and "
          "mtime); beginning, end and structure are compared, not all numbers",
          first_of(stamps.moved()));
    }
  } catch (const Error& error) {
    log::get("data").info("{}: is not used: {}", path, error.what());
    kept = {};
  }
  return kept;
}

void keep_index_file(const std::string& path, const std::string& request, std::string_view bytes) {
  std::string text = request + "\n";
  text += bytes;
  const std::uint64_t sum = checksum_of(text);
  std::string head(sizeof(sum), '\0');
  std::memcpy(head.data(), &sum, sizeof(sum));
  write_file(path, head + text, ExitCode::internal);
}

std::string kept_index_file(const std::string& path, const std::string& request) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 34;
  auto text = read_file_if_exists(path, limit, ExitCode::data);
  std::uint64_t sum = 0;
  if (!text || text->size() < sizeof(sum)) return "";
  std::memcpy(&sum, text->data(), sizeof(sum));
  text->erase(0, sizeof(sum));
  if (checksum_of(*text) != sum || !text->starts_with(request + "\n")) return "";
  return text->substr(request.size() + 1);
}

}  // namespace trireme
