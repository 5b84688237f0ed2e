// SPDX-License-Identifier: Apache-2.0
// Text that may be compressed with gzip or zstd.
#pragma once

#include <functional>
#include <span>

#include "data/pack/text/text_source.h"

namespace trireme {

// Like read_part(), but decompresses gzip and zstd files; `read` counts the bytes of the file.
// Raises ExitCode::data, naming the file, for damaged ones.
void read_text_part(const TextPart& part, const std::function<void(std::uint64_t)>& read,
                    const std::function<void(std::span<const std::byte>)>& take);

}  // namespace trireme
