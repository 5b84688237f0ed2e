// SPDX-License-Identifier: Apache-2.0
// Proof that every byte of a data set is what its packer wrote.
#pragma once

#include <string>
#include <vector>

#include "data/kinds.h"
#include "data/shard/shard.h"

namespace trireme {

// Reads the whole payload: block checksums, checksum of all, ids inside the vocabulary, document
// offsets that begin at 0, rise and end at the token count, labels inside the classes. Raises
// ExitCode::data naming the file and what is wrong, and every damaged block.
void verify_payload(const Shard& shard, const ByteProgress& progress = {});

// Of a shard of an open data set: where it has block checksums, only what no reader of the data set
// has verified yet, block by block; else all of it, as verify_payload().
void verify_rest(const Shard& shard, const ByteProgress& progress);

// Opens and verifies every shard of a data set (directory or file), goes on after a broken one,
// then checks that the shards agree. A problem of the set as a whole is reported under the
// directory's name.
[[nodiscard]] std::vector<ShardReport> verify_dataset(const std::string& path,
                                                      const ByteProgress& progress = {});
// The same of all data sets at the names.
[[nodiscard]] std::vector<ShardReport> verify_packed(const DataPlace& place,
                                                     const StartProgress& start);

}  // namespace trireme
