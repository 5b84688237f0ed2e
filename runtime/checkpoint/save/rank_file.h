// SPDX-License-Identifier: Apache-2.0
// rank_00000.h5: a one-dimensional contiguous float dataset per value kind. Private to this module.
//
// Note [Own writes]: the HDF5 library builds a file's metadata in memory; only our own pwrite
// writes to the disk. So every failed system call is seen, reported and survived (after a failed
// close the library may keep a file open or continue to write), and the library's lock is never
// held during disk I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"

namespace trireme {

// HDF5's layout of a file before it is written.
struct RankFilePlan {
  std::vector<std::byte> header;  // everything before the first value
  std::array<std::uint64_t, value_kinds.size()> offsets{};
  std::uint64_t bytes = 0;
};
// `elements` by kind; 0: no dataset.
[[nodiscard]] RankFilePlan plan_rank_file(
    const std::array<std::uint64_t, value_kinds.size()>& elements, const std::string& path);

// The whole checkpoint.h5 of a manifest: virtual datasets over the rank files, named
// "<kind>/<tensor>", in the tensors' shapes.
[[nodiscard]] std::vector<std::byte> view_file(const Manifest& manifest, const std::string& path);

}  // namespace trireme
