// SPDX-License-Identifier: Apache-2.0
// The root group and data sets, from their messages.
#include <algorithm>
#include <array>
#include <cstring>

#include "data/hdf5/metadata.h"
#include "data/hdf5/shard_parts.h"
#include "runtime/base/file_kind.h"

namespace trireme::hdf5 {
namespace {

enum MessageType : std::uint8_t {
  dataspace = 0x01,
  link_info = 0x02,
  datatype = 0x03,
  link = 0x06,
  external_files = 0x07,
  layout = 0x08,
  filters = 0x0b,
  attribute = 0x0c,
  symbol_table = 0x11,
  attribute_info = 0x15,
};

// Note [Superblock]: only superblock versions 2 and 3 are accepted (HDF5 1.8 or later, libver
// 'v108'). In that format every metadata block carries a checksum; older files have none.
std::uint64_t root_address(const InputFile& file) {
  constexpr std::array<unsigned char, 8> signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  constexpr std::uint64_t superblock_bytes = 48;
  const std::string& path = file.path();
  const Bytes head = read_bytes(file, 0, std::min(file.size(), superblock_bytes));
  if (head.size() < signature.size() ||
      std::memcmp(head.data(), signature.data(), signature.size()) != 0)
    refuse(path,
           fmt::format("is not an HDF5 file; it is {}", describe_file_kind(path, ExitCode::data)));
  if (head.size() < superblock_bytes)
    refuse(path, fmt::format("is {} bytes long, too short for a shard", file.size()));
  if (const auto version = static_cast<unsigned>(head[8]); version != 2 && version != 3) {
    refuse(path,
           fmt::format("has HDF5 superblock version {}; a shard has 2 or 3, whose metadata is "
                       "checksummed (HDF5 1.8 or later, h5py: libver='v108')",
                       version));
  }
  const Bytes block = read_block(file, 0, superblock_bytes);
  Cursor cursor(path, block);
  cursor.skip(9);
  if (cursor.number(1) != 8 || cursor.number(1) != 8)
    damaged(path, "offsets or lengths are not of 8 bytes");
  cursor.skip(1);
  if (cursor.number(8) != 0) damaged(path, "the file does not begin at byte 0");
  cursor.skip(8);
  if (cursor.number(8) > file.size()) damaged(path, "the file is shorter than it says");
  return cursor.number(8);
}

DataType parse_type(const std::string& path, std::span<const std::byte> bytes) {
  constexpr std::uint8_t fixed_point = 0, text = 3;
  Cursor cursor(path, bytes);
  const std::uint8_t kind = cursor.byte() & 15U;
  const std::uint64_t bits = cursor.number(3);
  DataType type{.bytes = cursor.number(4)};
  if (kind == text) type.kind = DataType::Kind::text;
  if (kind != fixed_point) return type;
  const std::uint64_t offset = cursor.number(2), precision = cursor.number(2);
  if (type.bytes == 0 || type.bytes > 8 || offset != 0 || precision != 8 * type.bytes) return type;
  type.kind = DataType::Kind::integer;
  type.little_endian = (bits & 1) == 0;
  type.is_signed = (bits & 8) != 0;
  return type;
}

DataSpace parse_space(const std::string& path, std::span<const std::byte> bytes) {
  constexpr std::uint8_t max_extents = 32, scalar = 0;
  Cursor cursor(path, bytes);
  const std::uint8_t version = cursor.byte(), rank = cursor.byte();
  if ((version != 1 && version != 2) || rank > max_extents) damaged(path, "an unknown data space");
  cursor.skip(1);
  const std::uint8_t kind = cursor.byte();
  if (version == 1) cursor.skip(4);
  DataSpace space;
  space.scalar = rank == 0 && (version == 1 || kind == scalar);
  for (std::uint8_t i = 0; i < rank; ++i)
    space.extents.push_back(cursor.number(8));
  return space;
}

void add_attribute(const std::string& path, std::span<const std::byte> bytes, RootGroup& root) {
  Cursor cursor(path, bytes);
  const std::uint8_t version = cursor.byte(), flags = cursor.byte();
  if (version < 1 || version > 3) damaged(path, "an attribute of an unknown version");
  if (version > 1 && flags != 0) damaged(path, "an attribute whose type is stored elsewhere");
  const std::uint64_t name_bytes = cursor.number(2), type_bytes = cursor.number(2),
                      space_bytes = cursor.number(2);
  if (version == 3) cursor.skip(1);
  const auto padded = [&](std::uint64_t size) { return version == 1 ? (size + 7) / 8 * 8 : size; };
  const std::string name = cursor.text(padded(name_bytes));
  Attribute it;
  it.type = parse_type(path, cursor.take(padded(type_bytes)));
  it.space = parse_space(path, cursor.take(padded(space_bytes)));
  const auto data = cursor.take(cursor.left());
  it.data.assign(data.begin(), data.end());
  if (!root.attributes.emplace(name, std::move(it)).second)
    damaged(path, fmt::format("two attributes '{}'", name));
}

void add_link(const std::string& path, std::span<const std::byte> bytes, RootGroup& root) {
  constexpr std::uint8_t hard = 0;
  Cursor cursor(path, bytes);
  if (cursor.byte() != 1) damaged(path, "a link of an unknown version");
  const std::uint8_t flags = cursor.byte();
  const std::uint8_t kind = (flags & 8) != 0 ? cursor.byte() : hard;
  cursor.skip((flags & 4) != 0 ? 8 : 0);   // order
  cursor.skip((flags & 16) != 0 ? 1 : 0);  // character set
  const std::uint64_t name_bytes = cursor.number(std::size_t{1} << (flags & 3));
  const std::string name = cursor.text(name_bytes);
  std::optional<std::uint64_t> address;
  if (kind == hard) address = cursor.number(8);
  if (!root.links.emplace(name, address).second) damaged(path, fmt::format("two links '{}'", name));
}

// Heap and name index of a link or attribute info message. False where all is in the header.
bool dense_at(const std::string& path, const Message& info, std::uint64_t& heap,
              std::uint64_t& index) {
  Cursor cursor(path, info.data);
  cursor.skip(1);
  const bool numbered = (cursor.byte() & 1) != 0;
  cursor.skip(!numbered ? 0 : info.type == link_info ? 8 : 2);
  heap = cursor.number(8);
  index = cursor.number(8);
  return heap != undefined_address && index != undefined_address;
}

void parse_layout(const std::string& path, const Bytes& data, StoredDataset& set) {
  constexpr std::array names = {"compact", "contiguous", "chunked", "virtual"};
  constexpr std::uint8_t contiguous = 1;
  Cursor cursor(path, data);
  const std::uint8_t version = cursor.byte();
  if (version < 3) damaged(path, "a data layout of an unknown version");
  const std::uint8_t kind = cursor.byte();
  set.storage = kind < names.size() ? names[kind] : "unknown";
  if (kind != contiguous) return;
  set.address = cursor.number(8);
  set.bytes = cursor.number(8);
}

}  // namespace

RootGroup read_root(const InputFile& file) {
  const std::string& path = file.path();
  RootGroup root;
  std::uint64_t heap = 0, index = 0;
  std::size_t infos = 0;
  for (const Message& message : read_messages(file, root_address(file))) {
    if (message.type == link) add_link(path, message.data, root);
    if (message.type == attribute) add_attribute(path, message.data, root);
    if ((message.type == link_info || message.type == attribute_info) && ++infos > 2)
      damaged(path, "more than one index of links or attributes");
    if (message.type == symbol_table) damaged(path, "a group of the old format");
    if (message.type == link_info && dense_at(path, message, heap, index)) {
      for (const Bytes& object : read_dense(file, heap, index, /*id_at=*/4))
        add_link(path, object, root);
    }
    if (message.type == attribute_info && dense_at(path, message, heap, index)) {
      for (const Bytes& object : read_dense(file, heap, index, /*id_at=*/0))
        add_attribute(path, object, root);
    }
  }
  return root;
}

StoredDataset read_dataset(const InputFile& file, std::uint64_t address) {
  const std::string& path = file.path();
  StoredDataset set;
  std::size_t parts = 0;
  for (const Message& message : read_messages(file, address)) {
    if (message.type == dataspace) ++parts, set.space = parse_space(path, message.data);
    if (message.type == datatype) ++parts, set.type = parse_type(path, message.data);
    if (message.type == layout) ++parts, parse_layout(path, message.data, set);
    if (message.type == filters) set.filtered = true;
    if (message.type == external_files) set.external = true;
  }
  if (parts != 3) damaged(path, "an object that is no data set");
  return set;
}

}  // namespace trireme::hdf5
