// SPDX-License-Identifier: Apache-2.0
// Index of an HDF5 file: everything from the HDF5 library that reading needs. Plain data, sent
// between processes and stored with a run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/fields/storage/element_type.h"
#include "runtime/base/file.h"

namespace trireme {

inline constexpr std::size_t most_axes = 8;
inline constexpr std::uint64_t never_written = ~std::uint64_t{0};

// A filter of a chunk, in the order of writing.
struct FilterStep {
  std::uint32_t id = 0;
  std::string name{};
  std::vector<std::uint32_t> values{};
  friend bool operator==(const FilterStep&, const FilterStep&) = default;
};

// Of NumPy's archives; ids of HDF5 have 16 bits.
inline constexpr std::uint32_t skip_filter = 1 << 16;  // values[0] bytes in front
inline constexpr std::uint32_t raw_deflate_filter = skip_filter + 1;

struct StoredChunk {
  std::uint64_t offset = never_written;  // in the file; never_written: all fill value
  std::uint64_t bytes = 0;               // as stored
  std::uint32_t skipped = 0;             // bit i: filter i was not applied
  friend bool operator==(const StoredChunk&, const StoredChunk&) = default;
};

struct StoredPart;

// A data set or an attribute.
struct StoredField {
  std::string name{};  // path in the file, for messages
  ElementType type{};
  NumberPacking packing{};
  std::vector<std::uint64_t> extents{};  // empty: one number
  // Places of the bytes. A contiguous data set is one chunk with its extents.
  std::vector<std::uint64_t> chunk_extents{};
  std::vector<StoredChunk> chunks{};  // in C order over the grid of chunks
  std::vector<FilterStep> filters{};
  std::vector<std::byte> fill{};     // one element; empty: zero
  std::vector<std::byte> content{};  // all of a compact data set or an attribute
  // Text: the names that its uint32 elements index; sorted by bytes, unique.
  std::vector<std::string> names{};
  // Virtual data sets: replaces chunks. No {} here: clang would need the complete element type.
  std::vector<StoredPart> parts;
  std::string file{};            // file with the bytes; empty: the indexed file
  std::uint64_t file_bytes = 0;  // its size
  friend bool operator==(const StoredField&, const StoredField&) = default;

  [[nodiscard]] bool is_text() const { return !names.empty(); }
  [[nodiscard]] bool is_attribute() const { return name.find('@') != std::string::npos; }
  // Whether its bytes already are a sample's floats.
  [[nodiscard]] bool is_plain_float() const { return type.is_native_float() && packing.is_none(); }
  [[nodiscard]] std::uint64_t elements() const;
  [[nodiscard]] std::uint64_t chunk_bytes() const;  // decoded
};

// A box of a virtual data set, and the box of its source.
struct StoredPart {
  std::vector<std::uint64_t> start{}, count{}, from{};
  StoredField field{};
  friend bool operator==(const StoredPart&, const StoredPart&) = default;
};

// A file, or with samples: group one of its groups: the inputs in order, then the target.
struct StoredUnit {
  std::string group{};  // "" or its path
  std::vector<StoredField> fields{};
  friend bool operator==(const StoredUnit&, const StoredUnit&) = default;
};

// Distinguishes a file from another with the same name.
struct FileState {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // nanoseconds
  friend bool operator==(const FileState&, const FileState&) = default;
};

struct FileIndex {
  std::string path{};
  FileState state{};
  std::uint64_t digest = 0;  // XXH3-64 of its first and last 4 kB
  std::vector<StoredUnit> units{};
  std::vector<std::string> notes{};  // from a listing: "PATH: why it cannot be read"
  friend bool operator==(const FileIndex&, const FileIndex&) = default;
};

// Makes a field of these texts, in C order.
void set_texts(StoredField& field, const std::vector<std::string>& texts);

// State of an existing file. Raises ExitCode::data.
[[nodiscard]] FileState state_of_file(const std::string& path);
[[nodiscard]] FileState state_of_file(const FileDescriptor& file, const std::string& path);
[[nodiscard]] std::uint64_t digest_of_ends(const std::string& path, std::uint64_t size);

// Serialises and parses. Parsing treats its input as untrusted: what parses can be read within the
// bounds of memory and files. Raises ExitCode::data.
void append_index(std::string& to, const FileIndex& index);
[[nodiscard]] std::vector<FileIndex> parse_indexes(std::string_view bytes);

// Raises ExitCode::data, naming file, data set and number, for a field whose sizes overflow, that
// exceeds its file, or has a chunk above 1 GiB.
void check_index(const FileIndex& index);

}  // namespace trireme
