// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/checksum.h"

// Inlined so that the compiler picks the widest vectors of the target, not of the packaged library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

struct Checksum::State {
  XXH3_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  if (XXH3_64bits_reset(&state_->hash) != XXH_OK) library_failed("XXH3_64bits_reset", "XXH_ERROR");
}

Checksum::~Checksum() = default;

void Checksum::update(std::span<const std::byte> bytes) {
  if (XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size()) != XXH_OK) {
    library_failed("XXH3_64bits_update", "XXH_ERROR");
  }
}

std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(&state_->hash);
}

std::uint64_t checksum_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

std::uint64_t file_checksum(const std::string& path, ExitCode code) {
  const FileDescriptor file = open_regular_file(path, code);
  const std::uint64_t size = regular_file_size(file, path, code);
  std::vector<std::byte> block(std::min<std::uint64_t>(std::size_t{1} << 20, size));
  Checksum sum;
  for (std::uint64_t at = 0; at < size; at += block.size()) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), size - at));
    read_exactly(file, path, at, part, code);
    sum.update(part);
  }
  return sum.value();
}

}  // namespace trireme
