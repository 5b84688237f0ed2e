// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/field_index.h"

#include <algorithm>
#include <cstring>

#include "data/shard/file_stamp.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t chunk_limit = std::uint64_t{1} << 30;  // bytes, decoded
constexpr std::uint64_t field_limit = std::uint64_t{1} << 56;  // bytes
constexpr std::uint64_t most_filters = 16;

// The product, or nothing above `limit`.
bool multiply(std::uint64_t& product, std::uint64_t factor, std::uint64_t limit) {
  if (factor != 0 && product > limit / factor) return false;
  product *= factor;
  return true;
}

class FieldCheck {
 public:
  FieldCheck(const FileIndex& index, const StoredField& field) : index_(index), field_(field) {}

  void run(int depth) const {
    if (!field_.type.is_valid()) refuse("the type of its numbers is unknown");
    if (field_.extents.size() > most_axes) refuse("it has more than 8 axes");
    const std::uint64_t bytes =
        product(field_.extents, field_limit, "it is larger than 2^56 bytes");
    if (!field_.fill.empty() && field_.fill.size() != field_.type.bytes)
      refuse("the size of its fill value is not that of its elements");
    if (field_.is_text()) check_names();
    if (!field_.parts.empty()) return check_parts(depth);
    if (!field_.content.empty() || bytes == 0) {
      if (field_.content.size() != bytes) refuse("the size of its content is wrong");
      return;
    }
    check_chunks();
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    fail(ExitCode::data, "{}: {}: {}", index_.path, field_.name, why);
  }

  [[nodiscard]] std::uint64_t product(const std::vector<std::uint64_t>& extents,
                                      std::uint64_t limit, std::string_view why) const {
    std::uint64_t bytes = field_.type.bytes;
    for (const std::uint64_t extent : extents) {
      if (!multiply(bytes, extent, limit)) refuse(why);
    }
    return bytes;
  }

  void check_names() const {
    const bool numbers = field_.type == text_numbers && field_.content.size() % 4 == 0 &&
                         field_.parts.empty() && field_.chunks.empty();
    if (!numbers) refuse("the numbers of its texts are missing");
    for (std::size_t at = 0; at < field_.content.size(); at += 4) {
      if (to_double(text_numbers, field_.content.data() + at) >=
          static_cast<double>(field_.names.size()))
        refuse("it has a text that is not in its names");
    }
  }

  void check_chunks() const {
    if (field_.chunk_extents.size() != field_.extents.size()) refuse("its chunks have other axes");
    if (field_.filters.size() > most_filters) refuse("it has more than 16 filters");
    const bool whole = field_.chunk_extents == field_.extents && field_.filters.empty();
    const std::uint64_t chunk_bytes =
        product(field_.chunk_extents, whole ? field_limit : chunk_limit,
                "a chunk of it decodes to more than 1 GiB");
    std::uint64_t count = 1;
    for (std::size_t i = 0; i < field_.extents.size(); ++i) {
      if (field_.chunk_extents[i] == 0) refuse("its chunks are empty");
      if (!multiply(count, (field_.extents[i] - 1) / field_.chunk_extents[i] + 1, field_limit))
        refuse("it has too many chunks");
    }
    if (count != field_.chunks.size()) refuse("its number of chunks does not match its extents");
    for (const StoredChunk& chunk : field_.chunks) {
      if (chunk.offset == never_written) continue;
      if (field_.filters.empty() && chunk.bytes != chunk_bytes)
        refuse("the size of a chunk without filters does not match its extents");
      if (chunk.bytes > chunk_limit && !whole) refuse("a chunk of it takes more than 1 GiB");
      const std::uint64_t end = field_.file.empty() ? index_.state.size : field_.file_bytes;
      if (chunk.offset > end || chunk.bytes > end - chunk.offset) {
        fail(ExitCode::data,
             "{}: {}: its data, from byte {} on, has {} bytes and goes past the end of the file "
             "({} bytes): the file is truncated or damaged",
             field_.file.empty() ? index_.path : field_.file, field_.name, chunk.offset,
             chunk.bytes, end);
      }
    }
  }

  void check_parts(int depth) const {
    constexpr int deepest = 8;
    if (depth >= deepest) refuse("virtual data sets are nested more than 8 deep");
    const std::size_t axes = field_.extents.size();
    for (const StoredPart& part : field_.parts) {
      const StoredField& source = part.field;
      if (part.start.size() != axes || part.count.size() != axes || part.from.size() != axes ||
          source.extents.size() != axes || !(source.type == field_.type))
        refuse("a source of this virtual data set has other axes or another type");
      for (std::size_t i = 0; i < axes; ++i) {
        const auto inside = [&](std::uint64_t start, std::uint64_t extent) {
          return start <= extent && part.count[i] <= extent - start;
        };
        if (!inside(part.start[i], field_.extents[i]) || !inside(part.from[i], source.extents[i]))
          refuse("a source of this virtual data set reaches beyond it");
      }
      FieldCheck(index_, source).run(depth + 1);
    }
  }

  const FileIndex& index_;
  const StoredField& field_;
};

}  // namespace

std::uint64_t StoredField::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : extents)
    count *= extent;
  return count;
}

std::uint64_t StoredField::chunk_bytes() const {
  std::uint64_t bytes = type.bytes;
  for (const std::uint64_t extent : chunk_extents)
    bytes *= extent;
  return bytes;
}

void set_texts(StoredField& field, const std::vector<std::string>& texts) {
  field.names = texts;
  std::ranges::sort(field.names);
  const auto doubles = std::ranges::unique(field.names);
  field.names.erase(doubles.begin(), doubles.end());
  field.type = text_numbers;
  for (const std::string& text : texts) {
    const auto number = static_cast<std::uint32_t>(std::ranges::lower_bound(field.names, text) -
                                                   field.names.begin());
    const auto bytes = std::as_bytes(std::span(&number, 1));
    field.content.insert(field.content.end(), bytes.begin(), bytes.end());
  }
}

FileState state_of_file(const FileDescriptor& file, const std::string& path) {
  const FileStamp stamp = stamp_of_file(file, path);
  return {.size = stamp.size, .modified = stamp.modified};
}

FileState state_of_file(const std::string& path) {
  const FileStamp stamp = stamp_of_file(path);
  return {.size = stamp.size, .modified = stamp.modified};
}

std::uint64_t digest_of_ends(const std::string& path, std::uint64_t size) {
  constexpr std::uint64_t end_bytes = 4096;
  const FileDescriptor file = open_regular_file(path, ExitCode::data);
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(size, end_bytes)));
  Checksum sum;
  for (const std::uint64_t at : {std::uint64_t{0}, size - bytes.size()}) {
    read_exactly(file, path, at, bytes, ExitCode::data);
    sum.update(bytes);
  }
  return sum.value();
}

void check_index(const FileIndex& index) {
  for (const StoredUnit& unit : index.units) {
    for (const StoredField& field : unit.fields)
      FieldCheck(index, field).run(0);
  }
}

}  // namespace trireme
