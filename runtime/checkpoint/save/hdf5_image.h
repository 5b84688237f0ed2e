// SPDX-License-Identifier: Apache-2.0
// An HDF5 file in memory; see Note [Own writes] in rank_file.h. Private to this module.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hdf5/handle.h"

namespace trireme::hdf5 {

// check(result, "call") raises ExitCode::internal if the library reports an error.
[[nodiscard]] inline auto internal_check(const std::string& path) {
  return [&path](auto result, std::string_view call,
                 std::source_location where = std::source_location::current()) {
    return checked(result, call, path, ExitCode::internal, where);
  };
}

// Link properties that create intermediate groups.
[[nodiscard]] Handle intermediate_groups(const std::string& path);

// Must be created inside a Session that outlives it. All metadata that fits into metadata_bytes
// precedes the values in the file; the values are never written and take no memory.
class ImageFile {
 public:
  static constexpr std::size_t metadata_bytes = std::size_t{64} << 10;

  // `path` is for messages.
  explicit ImageFile(const std::string& path);
  [[nodiscard]] hid_t id() const { return file_; }
  // File size in bytes, values included.
  [[nodiscard]] std::uint64_t size() const;
  // Closes the file, in which nothing else may be open; returns its first `count` bytes.
  [[nodiscard]] std::vector<std::byte> finish(std::size_t count);

 private:
  // The memory that the library uses as the file.
  struct Memory {
    std::vector<std::byte> kept;  // the contents at closing
    std::size_t bytes = 0;
  };
  static void* resize(void* memory, std::size_t bytes, H5FD_file_image_op_t, void* to);
  static herr_t release(void* memory, H5FD_file_image_op_t, void* to);

  const std::string& path_;
  std::unique_ptr<Memory> memory_;
  Handle file_;
};

}  // namespace trireme::hdf5
