// SPDX-License-Identifier: Apache-2.0
// An HDF5 file that exists in memory only; see Note [Own writes] in rank_file.h. Included by
// sources of this room only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "runtime/hdf5/handle.h"

namespace trireme::hdf5 {

// check(result, "call"): raises ExitCode::internal where the library says no.
[[nodiscard]] inline auto internal_check(const std::string& path) {
  return [&path](auto result, std::string_view call,
                 std::source_location where = std::source_location::current()) {
    return checked(result, call, path, ExitCode::internal, where);
  };
}

// Link properties: the groups on the way to a name are made with it.
[[nodiscard]] Handle intermediate_groups(const std::string& path);

// Made inside a Session that is open as long as it lives. All metadata that fits into
// metadata_bytes comes first in the file; values, which nobody writes, take no memory.
class ImageFile {
 public:
  static constexpr std::size_t metadata_bytes = std::size_t{64} << 10;

  // `path` is for messages.
  explicit ImageFile(const std::string& path);
  [[nodiscard]] hid_t id() const { return file_; }
  // Bytes of the file, values included.
  [[nodiscard]] std::uint64_t size() const;
  // Closes the file, of which nothing else may be open; its first `count` bytes.
  [[nodiscard]] std::vector<std::byte> finish(std::size_t count);

 private:
  // What the library uses as the file's memory.
  struct Memory {
    std::vector<std::byte> kept;  // its contents when the file was closed
    std::size_t bytes = 0;
  };
  static void* resize(void* memory, std::size_t bytes, H5FD_file_image_op_t, void* to);
  static herr_t release(void* memory, H5FD_file_image_op_t, void* to);

  const std::string& path_;
  std::unique_ptr<Memory> memory_;
  Handle file_;
};

}  // namespace trireme::hdf5
