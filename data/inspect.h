// SPDX-License-Identifier: Apache-2.0
// A data set in words.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// What the data set in `path` (a directory of shards or one shard) holds, a line per shard, and,
// with `preview` > 0, the first `preview` tokens (as text when they are bytes) or images (as
// characters). Opens and validates all shards; ExitCode::data as ever.
[[nodiscard]] std::string describe_dataset(const std::string& path, std::uint64_t preview);

}  // namespace trireme
