// SPDX-License-Identifier: Apache-2.0
// XXH3-64 (seed 0) of a byte stream: https://github.com/Cyan4973/xxHash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace trireme {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::uint64_t checksum_of(std::string_view text);
// Of a regular file's bytes. Raises `code`, with the path, if it cannot be read.
[[nodiscard]] std::uint64_t file_checksum(const std::string& path, ExitCode code);

}  // namespace trireme
