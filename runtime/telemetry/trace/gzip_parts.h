// SPDX-License-Identifier: Apache-2.0
// A gzip file in parts compressed by several processes: each gives raw deflate blocks that end on a
// byte boundary, and one process writes them in order as one member, which every reader accepts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/atomic_file.h"

namespace trireme {

struct DeflatedText {
  std::string bytes;
  std::uint32_t checksum = 0;  // CRC-32 of the text
  std::uint64_t length = 0;    // of the text
};
[[nodiscard]] DeflatedText deflate_text(std::string_view text);

// As one string, for sending; unpack() raises ExitCode::internal for invalid input.
[[nodiscard]] std::string pack(const DeflatedText& text);
[[nodiscard]] DeflatedText unpack(std::string_view packed);

// Written atomically, by commit(). Errors are ExitCode::config and name the path.
class GzipFile {
 public:
  explicit GzipFile(const std::string& path);
  void write(const DeflatedText& text);
  void write(std::string_view text) { write(deflate_text(text)); }
  void commit();

 private:
  AtomicFile file_;
  std::uint32_t checksum_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace trireme
