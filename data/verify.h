// SPDX-License-Identifier: Apache-2.0
// Verifies that every byte of a data set is as its packer wrote it.
#pragma once

#include <string>
#include <vector>

#include "data/kinds.h"
#include "data/shard/shard.h"

namespace trireme {

// Reads the whole payload: block checksums, total checksum, ids inside the vocabulary, document
// offsets that begin at 0, rise and end at the token count, labels inside the classes. Raises
// ExitCode::data naming the file, the problem, and every damaged block.
void verify_payload(const Shard& shard, const ByteProgress& progress = {});

// For a shard of an open data set: with block checksums verifies only blocks that no reader has
// verified; else all of it, as verify_payload().
void verify_rest(const Shard& shard, const ByteProgress& progress);

// Opens and verifies every shard of a data set (directory or file), also after a bad one, then
// checks that the shards agree. A problem of the whole set is reported under the directory's name.
[[nodiscard]] std::vector<ShardReport> verify_dataset(const std::string& path,
                                                      const ByteProgress& progress = {});
// The same of all data sets at the names.
[[nodiscard]] std::vector<ShardReport> verify_packed(const DataPlace& place,
                                                     const StartProgress& start);

}  // namespace trireme
