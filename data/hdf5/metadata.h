// SPDX-License-Identifier: Apache-2.0
// A reader of the part of HDF5's file format that shards use, for files that nobody vouches for:
// the library's own parser crashes on crafted metadata. Superblock 2 or 3, object headers of
// version 2, links and attributes in the header or in a fractal heap indexed by a B-tree of one
// node. Every checksum is checked, every read is bounded by its block, nothing is followed twice;
// what lies outside of this part is refused. HDF5 File Format Specification 3.0,
// https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/shard/file.h"

namespace trireme::hdf5 {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint64_t undefined_address = ~std::uint64_t{0};

// Reads little-endian values of a block one after another; raises ExitCode::data at its end.
class Cursor {
 public:
  Cursor(const std::string& path, std::span<const std::byte> bytes) : path_(path), left_(bytes) {}
  [[nodiscard]] std::uint64_t number(std::size_t bytes);  // at most 8
  [[nodiscard]] std::uint8_t byte() { return static_cast<std::uint8_t>(number(1)); }
  [[nodiscard]] std::span<const std::byte> take(std::uint64_t bytes);
  [[nodiscard]] std::string text(std::uint64_t bytes);
  void signature(const char* four);
  void skip(std::uint64_t bytes) { static_cast<void>(take(bytes)); }
  [[nodiscard]] std::size_t left() const { return left_.size(); }

 private:
  const std::string& path_;
  std::span<const std::byte> left_;
};

// Bob Jenkins' lookup3 (hashlittle, initial value 0), the checksum of metadata.
[[nodiscard]] std::uint32_t lookup3(std::span<const std::byte> bytes);

// Raises ExitCode::data: "<path>: is damaged or truncated (HDF5 metadata: <what>)".
[[noreturn]] void damaged(const std::string& path, std::string_view what);

// `bytes` of the file at `address`; the last four are the checksum of those before.
[[nodiscard]] Bytes read_block(const InputFile& file, std::uint64_t address, std::uint64_t bytes);
// The same without a checksum.
[[nodiscard]] Bytes read_bytes(const InputFile& file, std::uint64_t address, std::uint64_t bytes);

struct Message {
  std::uint8_t type = 0;
  Bytes data;
};

// Of the object header at `address`, in order, those of its continuations included.
[[nodiscard]] std::vector<Message> read_messages(const InputFile& file, std::uint64_t address);

// The objects of a fractal heap that the name index at `index` lists: links or attributes, encoded
// as messages. `id_at` is where in a record the heap's id stands.
[[nodiscard]] std::vector<Bytes> read_dense(const InputFile& file, std::uint64_t heap,
                                            std::uint64_t index, std::size_t id_at);

struct DataType {
  enum class Kind : std::uint8_t { integer, text, other };
  Kind kind = Kind::other;
  std::uint64_t bytes = 0;
  bool is_signed = false;
  bool little_endian = true;
};

struct DataSpace {
  bool scalar = false;
  std::vector<std::uint64_t> extents;
};

struct Attribute {
  DataType type;
  DataSpace space;
  Bytes data;
};

// The root group.
struct RootGroup {
  std::map<std::string, Attribute> attributes;
  std::map<std::string, std::optional<std::uint64_t>> links;  // hard: the object's address
};
[[nodiscard]] RootGroup read_root(const InputFile& file);

struct StoredDataset {
  DataType type;
  DataSpace space;
  std::string storage;  // contiguous, compact, chunked, virtual
  bool filtered = false;
  bool external = false;
  std::uint64_t address = undefined_address;  // of contiguous storage
  std::uint64_t bytes = 0;
};
[[nodiscard]] StoredDataset read_dataset(const InputFile& file, std::uint64_t address);

}  // namespace trireme::hdf5
