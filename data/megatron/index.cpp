// SPDX-License-Identifier: Apache-2.0
#include "data/megatron/index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "data/shard/data_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// index_magic (9 bytes), version (u64), type (u8), number of sequences (u64), of document bounds
// (u64); then lengths (i32 each), places in the .bin file (i64 each) and document bounds (i64
// each).
constexpr std::string_view index_magic("MMIDIDX\0\0", 9);
constexpr std::uint64_t index_header_bytes = 34;
constexpr std::size_t index_block_items = std::size_t{1} << 16;

template <typename Value>
Value value_at(std::span<const std::byte> bytes, std::size_t at) {
  Value value{};
  std::memcpy(&value, bytes.data() + at, sizeof(Value));
  return value;
}

class IndexReader {
 public:
  // `starts`, if given, receives the document starts.
  explicit IndexReader(const std::string& path, std::vector<std::uint64_t>* starts = nullptr)
      : file_(path), starts_(starts) {
    index_.index_path = path;
    index_.data_path = path.substr(0, path.size() - std::min<std::size_t>(path.size(), 4)) + ".bin";
  }

  MegatronIndex read() {
    read_header();
    read_sequences();
    read_documents();
    index_.checksum = checksum_.value();
    return std::move(index_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}; copy the file again, or make it again with Megatron-LM",
         file_.path(), fmt::format(format, std::forward<Args>(args)...));
  }

  void read_header() {
    std::array<std::byte, index_header_bytes> header{};
    if (file_.size() < index_header_bytes)
      refuse("has {} bytes, too few for an index of Megatron-LM", file_.size());
    file_.read(0, header);
    if (std::memcmp(header.data(), index_magic.data(), index_magic.size()) != 0)
      refuse("is not an index of Megatron-LM, which begins with MMIDIDX");
    if (const auto version = value_at<std::uint64_t>(header, 9); version != 1)
      refuse("has version {}, but only version 1 is supported", version);
    const auto type = value_at<std::uint8_t>(header, 17);
    constexpr std::array known = {MegatronType::u8, MegatronType::i16, MegatronType::i32,
                                  MegatronType::i64, MegatronType::u16};
    if (std::ranges::find(known, static_cast<MegatronType>(type)) == known.end())
      refuse(
          "stores tokens as type {}; supported are 1 (uint8), 3 (int16), 4 (int32), 5 (int64), 8 "
          "(uint16)",
          type);
    index_.type = static_cast<MegatronType>(type);
    index_.sequences = value_at<std::uint64_t>(header, 18);
    bounds_ = value_at<std::uint64_t>(header, 26);
    // This order avoids overflow.
    if (index_.sequences == 0 || index_.sequences > file_.size() / 12 || bounds_ < 2 ||
        bounds_ > file_.size() / 8 ||
        index_header_bytes + 12 * index_.sequences + 8 * bounds_ != file_.size())
      refuse("declares {} sequences and {} document bounds, which do not match its {} bytes",
             index_.sequences, bounds_, file_.size());
    checksum_.update(header);
  }

  void read_sequences() {
    const std::uint64_t size = size_of(index_.type);
    std::vector<std::int32_t> lengths;
    std::vector<std::int64_t> places;
    std::uint64_t bytes = 0;
    for (std::uint64_t done = 0; done < index_.sequences; done += lengths.size()) {
      const std::uint64_t count =
          std::min<std::uint64_t>(index_block_items, index_.sequences - done);
      lengths.resize(count);
      places.resize(count);
      file_.read(index_header_bytes + 4 * done, std::as_writable_bytes(std::span(lengths)));
      file_.read(index_header_bytes + 4 * index_.sequences + 8 * done,
                 std::as_writable_bytes(std::span(places)));
      checksum_.update(std::as_bytes(std::span(lengths)));
      for (std::size_t i = 0; i < count; ++i) {
        if (lengths[i] < 0) refuse("declares that sequence {} has {} tokens", done + i, lengths[i]);
        if (places[i] < 0 || static_cast<std::uint64_t>(places[i]) != bytes)
          refuse(
              "has sequence {} at byte {}, but the previous one ends at {}; only contiguous "
              "sequences can be read in place",
              done + i, places[i], bytes);
        if (starts_ != nullptr) begins_.push_back(bytes / size);
        bytes += static_cast<std::uint64_t>(lengths[i]) * size;
      }
    }
    index_.tokens = bytes / size;
    const std::uint64_t there = InputFile(index_.data_path).size();
    if (there != bytes)
      refuse("describes {} bytes of tokens, but {} has {}", bytes, index_.data_path, there);
  }

  void read_documents() {
    std::vector<std::int64_t> bounds;
    std::int64_t before = 0;
    const auto sequences = static_cast<std::int64_t>(index_.sequences);
    for (std::uint64_t done = 0; done < bounds_; done += bounds.size()) {
      bounds.resize(std::min<std::uint64_t>(index_block_items, bounds_ - done));
      file_.read(index_header_bytes + 12 * index_.sequences + 8 * done,
                 std::as_writable_bytes(std::span(bounds)));
      checksum_.update(std::as_bytes(std::span(bounds)));
      for (std::size_t i = 0; i < bounds.size(); ++i) {
        if (bounds[i] < before || bounds[i] > sequences || (done + i == 0 && bounds[i] != 0))
          refuse("has document bound {} at sequence {}, not from {} to {} sequences", done + i,
                 bounds[i], before, sequences);
        before = bounds[i];
        add_start(static_cast<std::size_t>(before));
      }
    }
    if (before != sequences)
      refuse("ends its last document at sequence {} of {}", before, sequences);
    index_.documents = bounds_ - 1;
  }

  // Adds the document that begins with this sequence; none at the end, one if several are empty.
  void add_start(std::size_t sequence) {
    if (starts_ == nullptr || sequence == begins_.size()) return;
    const std::uint64_t start = begins_[sequence];
    if (start < index_.tokens && (starts_->empty() || starts_->back() < start))
      starts_->push_back(start);
  }

  InputFile file_;
  std::vector<std::uint64_t>* starts_;
  std::vector<std::uint64_t> begins_;  // first tokens of sequences, if document starts are wanted
  MegatronIndex index_;
  std::uint64_t bounds_ = 0;
  Checksum checksum_;
};

// Ids below 2^18 have a small upper half; of many tokens of uint16 not every second one is that
// small, unless all are.
bool looks_like_uint32(std::string_view first) {
  constexpr std::size_t fewest = 128, highest = 3;
  std::array<bool, 2> above{};
  for (std::size_t i = 0; i + 2 <= first.size(); i += 2)
    above[i / 2 % 2] |= value_at<std::uint16_t>(std::as_bytes(std::span(first)), i) > highest;
  return first.size() >= fewest && above[0] && !above[1];
}

MegatronIndex open_alone(const std::string& path, std::int64_t token_bytes) {
  constexpr std::uint32_t mark_of_llm_c = 20240520, mark_of_uint32 = 20240801;
  constexpr std::uint64_t looked_at = 1 << 16;
  const InputFile file(path);
  std::string first(std::max<std::uint64_t>(std::min(looked_at, file.size()), 4), '\0');
  file.read(0, std::as_writable_bytes(std::span(first).first(std::min(looked_at, file.size()))));
  const bool wide = token_bytes > 0 ? token_bytes == 4 : looks_like_uint32(first);
  const std::uint64_t width = wide ? 4 : 2;
  if (file.size() % width != 0)
    fail(
        ExitCode::data,
        "{}: has {} bytes, no multiple of {}, so it does not hold tokens of uint{}; copy it again, "
        "name the .idx file of Megatron-LM, or set data.token_bytes",
        path, file.size(), width, 8 * width);
  const auto mark = value_at<std::uint32_t>(std::as_bytes(std::span(first)), 0);
  if (mark == mark_of_llm_c || mark == mark_of_uint32)
    fail(ExitCode::data,
         "{}: begins with the header of llm.c, and only files without header are read; cut it off "
         "(tail -c +1025 OLD > NEW)",
         path);
  return {.index_path = path,
          .data_path = path,
          .type = wide ? MegatronType::u32 : MegatronType::u16,
          .sequences = 1,
          .documents = 1,
          .tokens = file.size() / width};
}

}  // namespace

std::size_t size_of(MegatronType type) {
  switch (type) {
    case MegatronType::u8:
      return 1;
    case MegatronType::i16:
    case MegatronType::u16:
      return 2;
    case MegatronType::i32:
    case MegatronType::u32:
      return 4;
    case MegatronType::i64:
      return 8;
  }
  return 0;
}

std::optional<std::string> find_megatron_index(const std::string& path) {
  if (path.ends_with(".idx")) return path;
  std::error_code ignored;  // opening a path that cannot be examined reports the error
  if (path.ends_with(".bin") && fs::is_regular_file(path, ignored)) {
    const std::string index = path.substr(0, path.size() - 4) + ".idx";
    return fs::is_regular_file(index, ignored) ? index : path;
  }
  if (!path.empty() && !fs::exists(path, ignored) && fs::is_regular_file(path + ".idx", ignored))
    return path + ".idx";
  return std::nullopt;
}

MegatronIndex open_megatron_index(const std::string& index_path, std::int64_t token_bytes) {
  return index_path.ends_with(".bin") ? open_alone(index_path, token_bytes)
                                      : IndexReader(index_path).read();
}

std::vector<std::uint64_t> document_starts(const MegatronIndex& index) {
  if (index.alone())
    fail(ExitCode::config,
         "data.documents: separate: {} does not say where documents begin; use joined",
         index.data_path);
  std::vector<std::uint64_t> starts;
  const MegatronIndex again = IndexReader(index.index_path, &starts).read();
  if (again.checksum != index.checksum)
    fail(ExitCode::data, "{}: was changed while it was opened", index.index_path);
  return starts;
}

}  // namespace trireme
