// SPDX-License-Identifier: Apache-2.0
// Where the numbers of HDF5 files lie: what is known of a file once the HDF5 library has been
// asked, and all that reading it takes. Plain data, which goes from process to process and is kept
// beside a run.
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

// One filter that the bytes of a chunk have gone through, in the order of writing.
struct FilterStep {
  std::uint32_t id = 0;
  std::string name{};
  std::vector<std::uint32_t> values{};
  friend bool operator==(const FilterStep&, const FilterStep&) = default;
};

struct StoredChunk {
  std::uint64_t offset = never_written;  // in the file; never_written: all of it is the fill value
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
  // Where the bytes lie. A contiguous data set is one chunk of its own extents.
  std::vector<std::uint64_t> chunk_extents{};
  std::vector<StoredChunk> chunks{};  // in C order over the grid of chunks
  std::vector<FilterStep> filters{};
  std::vector<std::byte> fill{};     // one element; empty: zero
  std::vector<std::byte> content{};  // of a compact data set or an attribute: all of it
  // Of text: what its elements, uint32, are numbers of; sorted by bytes, each once.
  std::vector<std::string> names{};
  // Of a virtual data set, instead of chunks. Without {}: clang wants to know its elements for
  // that.
  std::vector<StoredPart> parts;
  std::string file{};            // that holds the bytes; empty: the file of the index
  std::uint64_t file_bytes = 0;  // its size
  friend bool operator==(const StoredField&, const StoredField&) = default;

  [[nodiscard]] bool is_text() const { return !names.empty(); }
  [[nodiscard]] bool is_attribute() const { return name.find('@') != std::string::npos; }
  // Whether its bytes are the floats of a sample as they are.
  [[nodiscard]] bool is_plain_float() const { return type.is_native_float() && packing.is_none(); }
  [[nodiscard]] std::uint64_t elements() const;
  [[nodiscard]] std::uint64_t chunk_bytes() const;  // decoded
};

// A box of a virtual data set, and the box of the same shape of another that stands there.
struct StoredPart {
  std::vector<std::uint64_t> start{}, count{}, from{};
  StoredField field{};
  friend bool operator==(const StoredPart&, const StoredPart&) = default;
};

// A file, or with samples: group a group of it: the inputs in order, then the target.
struct StoredUnit {
  std::string group{};  // "" or its path
  std::vector<StoredField> fields{};
  friend bool operator==(const StoredUnit&, const StoredUnit&) = default;
};

// What tells a file from another of its name.
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
  std::vector<std::string> notes{};  // of a listing: "PATH: why it cannot be read"
  friend bool operator==(const FileIndex&, const FileIndex&) = default;
};

// State of a file that is there. Raises ExitCode::data.
[[nodiscard]] FileState state_of_file(const std::string& path);
[[nodiscard]] FileState state_of_file(const FileDescriptor& file, const std::string& path);
[[nodiscard]] std::uint64_t digest_of_ends(const std::string& path, std::uint64_t size);

// Bytes, and back. What comes back is checked as if it had come from a stranger: whatever parses
// can be read without reaching beyond memory or files. Raises ExitCode::data.
void append_index(std::string& to, const FileIndex& index);
[[nodiscard]] std::vector<FileIndex> parse_indexes(std::string_view bytes);

// Raises ExitCode::data, naming file, data set and number, for a field whose sizes overflow, that
// reaches beyond its file, or has a chunk above 1 GiB.
void check_index(const FileIndex& index);

}  // namespace trireme
