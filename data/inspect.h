// SPDX-License-Identifier: Apache-2.0
// Packed shards in words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/kinds.h"
#include "data/sets/dataset.h"

namespace trireme {

inline constexpr std::uint64_t longest_preview = 4096;

// Describes each data set at the names (directories of shards or of splits, or one shard): a line
// per shard, and, with `preview` > 0, the first tokens (as text if they are bytes) or images (as
// characters). Opens and validates all shards, up to the first bad one.
[[nodiscard]] Description inspect_packed(const DataPlace& place);

[[nodiscard]] std::string megabytes(std::uint64_t bytes);  // "1.2 MB"

// The first images of bytes of a data set as characters, each below a line with its class.
[[nodiscard]] std::string preview_pictures(
    const Dataset& data, std::uint64_t wanted,
    const std::function<std::string(std::int32_t)>& class_of);

}  // namespace trireme
