// SPDX-License-Identifier: Apache-2.0
#include "data/fields/index_store.h"

#include <unordered_set>

#include "data/index_file.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Indexes are of one request: a line for the whole of it.
std::string line_of(const ScanRequest& request) {
  std::string line = fmt::format("trireme-index {} {} {}", request.groups, request.outside_links,
                                 request.bfloat16);
  for (const std::string& field : request.fields)
    line += "\t" + field;
  return line;
}

bool same_sizes(const StoredField& field) {
  if (!field.file.empty() && state_of_file(field.file).size != field.file_bytes) return false;
  for (const StoredPart& part : field.parts) {
    if (!same_sizes(part.field)) return false;
  }
  return true;
}

bool is_as_it_was(const FileIndex& index) {
  if (state_of_file(index.path) != index.state) return false;
  for (const StoredUnit& unit : index.units) {
    for (const StoredField& field : unit.fields) {
      if (!same_sizes(field)) return false;
    }
  }
  return true;
}

}  // namespace

void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes) {
  std::string bytes;
  for (const FileIndex& index : indexes)
    append_index(bytes, index);
  keep_index_file(path, line_of(request), bytes);
}

std::vector<FileIndex> kept_indexes(const std::string& path, const ScanRequest& request,
                                    std::span<const std::string> files) {
  std::vector<FileIndex> kept;
  try {
    const std::unordered_set<std::string> wanted(files.begin(), files.end());
    std::vector<std::string> touched;
    for (FileIndex& index : parse_indexes(kept_index_file(path, line_of(request)))) {
      if (!wanted.contains(index.path)) continue;
      if (is_as_it_was(index)) {
        kept.push_back(std::move(index));
      } else if (state_of_file(index.path).size == index.state.size) {
        touched.push_back(index.path);
      }
    }
    if (!touched.empty()) {
      log::get("data").warn(
          "{}{} written to since this run last looked at it, and kept its size; its ends and its "
          "structure are compared, not all of its numbers",
          touched.front(),
          touched.size() == 1 ? " was" : fmt::format(" and {} more were", touched.size() - 1));
    }
  } catch (const Error& error) {
    log::get("data").info("{}: is not used: {}", path, error.what());
    kept.clear();
  }
  return kept;
}

}  // namespace trireme
