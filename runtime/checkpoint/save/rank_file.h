// SPDX-License-Identifier: Apache-2.0
// rank_00000.h5: one one-dimensional contiguous dataset of floats per kind of value. Private to
// this room.
//
// Note [Own writes]: the HDF5 library makes the metadata of a file in memory; bytes reach the disk
// only through our own pwrite, so that every failing system call is seen, named and survived (the
// library may keep a file open, or write on, after a failed close), and its lock is never held
// while a disk works.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/files/manifest.h"

namespace trireme {

// What the library says of a file that is not written yet.
struct RankFilePlan {
  std::vector<std::byte> header;  // everything before the first value
  std::array<std::uint64_t, value_kinds.size()> offsets{};
  std::uint64_t bytes = 0;
};
// `elements` by kind; 0: no such dataset.
[[nodiscard]] RankFilePlan plan_rank_file(
    const std::array<std::uint64_t, value_kinds.size()>& elements, const std::string& path);

// checkpoint.h5 of a manifest, whole: virtual datasets over the rank files beside it, under
// "<kind>/<tensor>", in the tensors' own shapes.
[[nodiscard]] std::vector<std::byte> view_file(const Manifest& manifest, const std::string& path);

}  // namespace trireme
