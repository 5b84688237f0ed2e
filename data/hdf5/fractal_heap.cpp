// SPDX-License-Identifier: Apache-2.0
// Links and attributes that do not fit an object header: objects of a fractal heap, listed by a
// version 2 B-tree.
#include <algorithm>
#include <bit>
#include <cstring>

#include "data/hdf5/metadata.h"

namespace trireme::hdf5 {
namespace {

// What the library uses for links and attributes, and far more than a shard needs.
constexpr std::uint64_t largest_heap_block = 64 << 10;
constexpr std::uint64_t max_rows = 64;
constexpr std::uint64_t max_objects = 256;
constexpr std::uint64_t max_bytes = std::uint64_t{64} << 20;

std::size_t bytes_for(std::uint64_t limit) {
  return limit == 0 ? 1 : (static_cast<std::size_t>(std::bit_width(limit)) - 1) / 8 + 1;
}

// The records of a B-tree that is one leaf.
std::vector<Bytes> read_records(const InputFile& file, std::uint64_t address) {
  constexpr std::uint64_t header_bytes = 38, leaf_overhead = 6 + 4;
  const Bytes header = read_block(file, address, header_bytes);
  Cursor cursor(file.path(), header);
  cursor.signature("BTHD");
  cursor.skip(2 + 4);  // version, type, node size
  const std::uint64_t record_bytes = cursor.number(2), depth = cursor.number(2);
  cursor.skip(2);
  const std::uint64_t root = cursor.number(8), count = cursor.number(2);
  if (count == 0) return {};
  if (depth != 0 || count > max_objects)
    damaged(file.path(), "more links or attributes than a shard has");
  const Bytes leaf = read_block(file, root, leaf_overhead + count * record_bytes);
  Cursor records(file.path(), leaf);
  records.signature("BTLF");
  records.skip(2);
  std::vector<Bytes> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto record = records.take(record_bytes);
    all.emplace_back(record.begin(), record.end());
  }
  return all;
}

class Heap {
 public:
  Heap(const InputFile& file, std::uint64_t address) : file_(file), address_(address) {
    constexpr std::uint64_t header_bytes = 146;
    const Bytes header = read_block(file, address, header_bytes);
    Cursor cursor(file.path(), header);
    cursor.signature("FRHP");
    cursor.skip(1);
    id_bytes_ = cursor.number(2);
    if (cursor.number(2) != 0) damaged(file.path(), "a filtered heap");
    has_checksums_ = (cursor.byte() & 2) != 0;
    const std::uint64_t largest_managed = cursor.number(4);
    cursor.skip(8);
    huge_index_ = cursor.number(8);
    cursor.skip(10 * 8);  // free space and statistics
    width_ = cursor.number(2);
    first_block_ = cursor.number(8);
    largest_block_ = cursor.number(8);
    offset_bytes_ = (cursor.number(2) + 7) / 8;
    cursor.skip(2);
    root_ = cursor.number(8);
    rows_ = cursor.number(2);
    length_bytes_ = std::min(bytes_for(largest_block_), bytes_for(largest_managed));
    if (id_bytes_ < 2 || id_bytes_ > 64 || width_ == 0 || width_ > max_rows || rows_ > max_rows ||
        offset_bytes_ == 0 || offset_bytes_ > 8 || !std::has_single_bit(first_block_) ||
        !std::has_single_bit(largest_block_) || first_block_ > largest_block_ ||
        largest_block_ > largest_heap_block)
      damaged(file.path(), "a heap of unusual sizes");
  }

  [[nodiscard]] std::uint64_t id_bytes() const { return id_bytes_; }

  [[nodiscard]] Bytes object(std::span<const std::byte> id) const {
    Cursor cursor(file_.path(), id);
    const std::uint8_t flags = cursor.byte();
    switch (flags >> 4) {  // version 0 and the kind
      case 0: {
        const std::uint64_t offset = cursor.number(offset_bytes_);
        return managed(offset, cursor.number(length_bytes_));
      }
      case 1:
        return huge(cursor.number(std::min<std::size_t>(8, id_bytes_ - 1)));
      case 2: {
        const auto data = cursor.take((flags & 15U) + 1U);
        return {data.begin(), data.end()};
      }
      default:
        damaged(file_.path(), "a heap object of an unknown kind");
    }
  }

 private:
  // Address, size and first heap offset of the direct block that holds `offset`.
  struct Block {
    std::uint64_t address, bytes, start;
  };
  [[nodiscard]] Block block_of(std::uint64_t offset) const {
    if (rows_ == 0) return {root_, first_block_, 0};
    const std::uint64_t entries = 5 + 8 + offset_bytes_;
    const Bytes table = read_block(file_, root_, entries + rows_ * width_ * 8 + 4);
    Cursor cursor(file_.path(), table);
    cursor.signature("FHIB");
    cursor.skip(entries - 4);
    std::uint64_t start = 0, bytes = first_block_;
    for (std::uint64_t row = 0; row < rows_ && bytes <= largest_block_; ++row) {
      if (row > 1) bytes *= 2;
      for (std::uint64_t column = 0; column < width_; ++column, start += bytes) {
        const std::uint64_t address = cursor.number(8);
        if (offset >= start && offset - start < bytes && bytes <= largest_block_)
          return {address, bytes, start};
      }
    }
    damaged(file_.path(), "a heap object lies outside its blocks");
  }

  [[nodiscard]] Bytes managed(std::uint64_t offset, std::uint64_t length) const {
    const Block block = block_of(offset);
    Bytes bytes = read_bytes(file_, block.address, block.bytes);
    Cursor cursor(file_.path(), bytes);
    cursor.signature("FHDB");
    cursor.skip(1);
    if (cursor.number(8) != address_) damaged(file_.path(), "a block of another heap");
    cursor.skip(offset_bytes_);
    if (has_checksums_) {
      const std::size_t at = bytes.size() - cursor.left();
      const std::uint64_t stored = cursor.number(4);
      std::memset(bytes.data() + at, 0, 4);
      if (lookup3(bytes) != stored)
        damaged(file_.path(), "a heap block does not match its checksum");
    }
    if (offset < block.start) damaged(file_.path(), "a heap object lies outside its blocks");
    Cursor content(file_.path(), bytes);
    content.skip(offset - block.start);
    const auto object = content.take(length);
    return {object.begin(), object.end()};
  }

  [[nodiscard]] Bytes huge(std::uint64_t id) const {
    if (huge_index_ == undefined_address) damaged(file_.path(), "a heap without large objects");
    for (const Bytes& record : read_records(file_, huge_index_)) {
      Cursor cursor(file_.path(), record);
      const std::uint64_t address = cursor.number(8), length = cursor.number(8);
      if (cursor.number(8) == id) return read_bytes(file_, address, length);
    }
    damaged(file_.path(), "a large object that no index lists");
  }

  const InputFile& file_;
  std::uint64_t address_;
  std::uint64_t id_bytes_ = 0, huge_index_ = 0, width_ = 0, first_block_ = 0, largest_block_ = 0,
                offset_bytes_ = 0, root_ = 0, rows_ = 0;
  std::size_t length_bytes_ = 0;
  bool has_checksums_ = false;
};

}  // namespace

std::vector<Bytes> read_dense(const InputFile& file, std::uint64_t heap, std::uint64_t index,
                              std::size_t id_at) {
  const Heap from(file, heap);
  std::vector<Bytes> objects;
  std::uint64_t total = 0;
  for (const Bytes& record : read_records(file, index)) {
    Cursor cursor(file.path(), record);
    cursor.skip(id_at);
    objects.push_back(from.object(cursor.take(from.id_bytes())));
    total += objects.back().size();
    if (total > max_bytes) damaged(file.path(), "links or attributes are too large");
  }
  return objects;
}

}  // namespace trireme::hdf5
