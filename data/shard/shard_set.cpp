// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard_set.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "data/hdf5/child.h"
#include "data/sets/dataset.h"
#include "data/shard/block_checks.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* pack_hint =
    "pack data with `trireme data pack-text` or `trireme data pack-images`";

// The number in "shard_00007.h5".
std::optional<std::uint64_t> shard_number(const std::string& name) {
  std::uint64_t number = 0;
  if (!name.starts_with("shard_") || !name.ends_with(".h5")) return std::nullopt;
  const char* const end = name.data() + name.size() - 3;
  const auto [stop, status] = std::from_chars(name.data() + 6, end, number);
  if (status != std::errc() || stop != end || name != shard_file_name(number)) return std::nullopt;
  return number;
}

std::vector<std::string> shards_in(const std::string& directory) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (const auto number = shard_number(it->path().filename().string())) {
      found.emplace_back(*number, it->path().string());
    }
  }
  if (error) fail(ExitCode::data, "{}: cannot list the directory: {}", directory, error.message());
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (const auto& [number, path] : found) {
    if (number != paths.size()) {
      fail(ExitCode::data, "{}: {} is missing; restore it or re-pack the data set", directory,
           shard_file_name(paths.size()));
    }
    paths.push_back(path);
  }
  return paths;
}

fs::file_type type_of(const std::string& path) {
  std::error_code error;
  return fs::status(path, error).type();
}

std::string_view mask_name(const ShardHeader& header) {
  return header.counted ? "there" : "absent";
}

void check_agrees(const Shard& first, const Shard& other, std::uint64_t position) {
  const ShardHeader &a = first.header, &b = other.header;
  const auto differ = [&](std::string_view what, const auto& mine, const auto& theirs) {
    if (mine == theirs) return;
    fail(ExitCode::data,
         "{}: {} is {}, but {} in {}; the shards are from different data sets: re-pack them "
         "together",
         other.path, what, theirs, mine, first.path);
  };
  differ("kind", name_of(a.kind), name_of(b.kind));
  differ("dtype", stored_name(a.dtype), stored_name(b.dtype));
  differ("vocabulary", a.vocabulary, b.vocabulary);
  differ("tokenizer", a.tokenizer, b.tokenizer);
  differ("its loss mask", mask_name(a), mask_name(b));
  differ("its targets", name_of(a.targets), name_of(b.targets));
  differ("numbers of a text", a.target_width, b.target_width);
  differ("longest text", a.longest, b.longest);
  differ("image height", a.height, b.height);
  differ("image width", a.width, b.width);
  differ("channels", a.channels, b.channels);
  differ("number of classes", a.classes.size(), b.classes.size());
  differ("classes", join_classes(a.classes), join_classes(b.classes));
  differ("shard_count", a.shard_count, b.shard_count);
  if (b.shard_index != position) {
    fail(ExitCode::data,
         "{}: is shard {} by its content, but {} by its name; restore its name or re-pack",
         other.path, b.shard_index, position);
  }
}

}  // namespace

ShardList list_shards(const std::string& path, const std::string& split) {
  const fs::file_type type = type_of(path);
  if (type == fs::file_type::not_found) {
    fail(ExitCode::data, "{}: no such file or directory; {}", path, pack_hint);
  }
  if (type != fs::file_type::directory) return {{path}, false};
  std::vector<std::string> paths = shards_in(path);
  if (!paths.empty()) return {paths, true};
  const std::string inner = (fs::path(path) / split).string();
  if (!split.empty() && type_of(inner) == fs::file_type::directory) paths = shards_in(inner);
  if (!paths.empty()) return {paths, true};
  fail(ExitCode::data, "{}: holds no shards (shard_00000.h5, ...){}; {}", path,
       split.empty() ? "" : fmt::format(", nor does {}", inner), pack_hint);
}

std::vector<std::string> find_datasets(const std::string& path) {
  if (type_of(path) != fs::file_type::directory || !shards_in(path).empty()) return {path};
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_directory() && !shards_in(entry.path().string()).empty())
      found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) static_cast<void>(list_shards(path, ""));  // raises
  return found;
}

ShardSet::ShardSet(const ShardList& list, bool check_blocks) {
  const std::vector<std::string>& paths = list.paths;
  TRIREME_EXPECTS(!paths.empty(), "a data set without shards");
  shards_.reserve(paths.size());
  files_.reserve(paths.size());
  starts_.push_back(0);
  Checksum fingerprint;
  const auto child = Hdf5Child::shared();  // one for all shards
  for (const std::string& path : paths) {
    Shard shard = open_shard(path);
    // A shard given by its own path may have any number.
    check_agrees(shards_.empty() ? shard : shards_.front(), shard,
                 list.complete ? shards_.size() : shard.header.shard_index);
    files_.emplace_back(path);
    if (check_blocks && shard.block_bytes > 0)
      shard.blocks = std::make_shared<BlockChecks>(shard, files_.back().source());
    starts_.push_back(starts_.back() + shard.header.count);
    fingerprint.update(std::as_bytes(std::span(&shard.header_checksum, 1)));
    shards_.push_back(std::move(shard));
  }
  const std::uint64_t expected = shards_.front().header.shard_count;
  if (list.complete && list.paths.size() != expected) {
    fail(ExitCode::data,
         "{}: holds {} of {} shards; {} is missing: restore it or re-pack the data set",
         parent_directory(list.paths.front()), list.paths.size(), expected,
         shard_file_name(list.paths.size()));
  }
  fingerprint_ = fingerprint.value();
}

void ShardSet::read(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
                    std::optional<std::int64_t> sample) const {
  const Shard& from = shards_[shard];
  from.blocks ? from.blocks->read(files_[shard], first, to, sample)
              : files_[shard].read(from.data_offset + first, to);
}

void ShardSet::read_index(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
                          std::optional<std::int64_t> sample) const {
  const Shard& from = shards_[shard];
  if (from.blocks) return from.blocks->read_index(files_[shard], first, to, sample);
  files_[shard].read(from.index_offset + first, to);
}

void ShardSet::read_mask(std::size_t shard, std::uint64_t first, std::span<std::byte> to,
                         std::optional<std::int64_t> sample) const {
  const Shard& from = shards_[shard];
  if (from.blocks) return from.blocks->read_mask(files_[shard], first, to, sample);
  files_[shard].read(from.mask_offset + first, to);
}

std::size_t ShardSet::shard_of(std::uint64_t position) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), position);
  return static_cast<std::size_t>(after - starts_.begin()) - 1;
}

}  // namespace trireme
