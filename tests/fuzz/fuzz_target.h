// SPDX-License-Identifier: Apache-2.0
// Shared by all fuzz targets: an input as a file, and the two allowed outcomes of a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

// Entry point of libFuzzer and of the replay driver. Anything but a return is a finding.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Called before all inputs.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);

// Optional, as in libFuzzer: a target that knows its inputs' structure mutates them itself. `data`
// has room for `max_bytes`; returns the new size. It may call the driver's byte mutation.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_bytes, unsigned seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_bytes);

namespace trireme::fuzz {

[[nodiscard]] inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A regular file in memory that any code, in other processes too, can open by its path.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void set(std::string_view content) const;  // replaces all of it
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

// Ends the process with a message unless `condition` holds.
void require(bool condition, std::string_view what);

// Runs `read`, which may only raise an Error with this code. True if it raised none.
template <typename Read>
bool accepts(ExitCode code, Read&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require(error.code() == code, error.what());
    return false;
  }
}

}  // namespace trireme::fuzz
