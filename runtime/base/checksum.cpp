// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/checksum.h"

// Inlined so that the compiler picks the widest vectors of the target, not of the packaged library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/base/error.h"

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

}  // namespace trireme
