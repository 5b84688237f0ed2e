// SPDX-License-Identifier: Apache-2.0
// What all fuzz targets share: an input as a file, and the only two outcomes that a reader of
// foreign bytes may have.
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

// A target that knows its inputs' structure may change them itself, as libFuzzer has it: `data` has
// room for `max_bytes`, the new size is returned. The driver's own mutation, of bytes, is there
// for it to use.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_bytes, unsigned seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                        std::size_t max_bytes);

namespace trireme::fuzz {

[[nodiscard]] inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A regular file in memory that any code can open by its path, in other processes too.
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

// Ends the process, with a message, where `condition` does not hold.
void require(bool condition, std::string_view what);

// Runs `read`, which may raise an Error of this code and nothing else. True when it raised none.
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
