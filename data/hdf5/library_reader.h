// SPDX-License-Identifier: Apache-2.0
// Reads the same bytes by the HDF5 library's own read call: the reference of `trireme bench data`
// and of tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "data/shard/shard.h"

namespace trireme {

class LibraryReader {
 public:
  explicit LibraryReader(const Shard& shard);
  ~LibraryReader();
  LibraryReader(const LibraryReader&) = delete;
  LibraryReader& operator=(const LibraryReader&) = delete;

  // Tokens or images [first, first + count) as stored, by H5Dread of a hyperslab.
  void read(std::uint64_t first, std::uint64_t count, std::span<std::byte> to);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
