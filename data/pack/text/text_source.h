// SPDX-License-Identifier: Apache-2.0
// The inputs of pack-text as one byte stream of known length.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/shard/data_file.h"

namespace trireme {

// A file, or a copy of a stream that cannot be read twice (stdin, a pipe).
struct TextPart {
  std::string name;
  std::uint64_t bytes = 0;
  std::shared_ptr<SpoolFile> spool;  // null for a regular file
};

// Expands `inputs`: files; directories to all their files (file_tree.h); "-" is stdin. Copies
// streams to unnamed storage in `spool_directory`. Skips empty files. Raises ExitCode::data for
// what is missing or unreadable, or if there are no bytes at all.
[[nodiscard]] std::vector<TextPart> list_text(const std::vector<std::string>& inputs,
                                              const std::string& spool_directory);

// Passes the part to `take` in blocks. Raises ExitCode::data if a file's size has changed since it
// was listed.
void read_part(const TextPart& part, const std::function<void(std::span<const std::byte>)>& take);

// Like read_part(), but decompresses gzip and zstd files; `read` counts the bytes of the file.
// Raises ExitCode::data, naming the file, for damaged ones and for known kinds of other files.
void read_text_part(const TextPart& part, const std::function<void(std::uint64_t)>& read,
                    const std::function<void(std::span<const std::byte>)>& take);

}  // namespace trireme
