// SPDX-License-Identifier: Apache-2.0
// Deflate streams, by libdeflate. Private to the data module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace trireme {

// Not thread-safe. Both write at most to.size() bytes and return their number. Raise ExitCode::data
// for a stream that is damaged or longer.
class Inflater {
 public:
  Inflater();
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  std::size_t zlib(std::span<const std::byte> from, std::span<std::byte> to);  // with its header
  std::size_t raw(std::span<const std::byte> from, std::span<std::byte> to);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

// Of bytes that follow others with this checksum, 0 at first.
[[nodiscard]] std::uint32_t crc32_of(std::uint32_t before, std::span<const std::byte> bytes);

}  // namespace trireme
