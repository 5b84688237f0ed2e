// SPDX-License-Identifier: Apache-2.0
#include "data/fields/index_store.h"

#include <cstring>
#include <unordered_set>

#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

// Indexes are of one request: a line for the whole of it.
std::string line_of(const ScanRequest& request) {
  std::string line = fmt::format("trireme-index {} {} {}", request.groups, request.outside_links,
                                 request.bfloat16);
  for (const std::string& field : request.fields)
    line += "\t" + field;
  return line + "\n";
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

// What keep_indexes wrote, without its head; "" for anything else.
std::string stored_bytes(const std::string& path, const ScanRequest& request) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 34;
  auto text = read_file_if_exists(path, limit, ExitCode::data);
  std::uint64_t sum = 0;
  if (!text || text->size() < sizeof(sum)) return "";
  std::memcpy(&sum, text->data(), sizeof(sum));
  text->erase(0, sizeof(sum));
  const std::string line = line_of(request);
  if (checksum_of(*text) != sum || !text->starts_with(line)) return "";
  return text->substr(line.size());
}

}  // namespace

void keep_indexes(const std::string& path, const ScanRequest& request,
                  std::span<const FileIndex> indexes) {
  std::string text = line_of(request);
  for (const FileIndex& index : indexes)
    append_index(text, index);
  const std::uint64_t sum = checksum_of(text);
  std::string head(sizeof(sum), '\0');
  std::memcpy(head.data(), &sum, sizeof(sum));
  write_file(path, head + text, ExitCode::internal);
}

std::vector<FileIndex> kept_indexes(const std::string& path, const ScanRequest& request,
                                    std::span<const std::string> files) {
  std::vector<FileIndex> kept;
  try {
    const std::unordered_set<std::string> wanted(files.begin(), files.end());
    std::vector<std::string> touched;
    for (FileIndex& index : parse_indexes(stored_bytes(path, request))) {
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
