// SPDX-License-Identifier: Apache-2.0
// Text or any bytes to token shards, one token per byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"

namespace trireme {

struct PackTextOptions {
  std::vector<std::string> inputs;  // files, directories, "-"
  std::string output;
  std::string split;  // empty, or the subdirectory of `output` to write
  // The last part of the stream goes to output/validation, the rest to output/train; 0: all to
  // output/train.
  std::optional<double> validation;
  std::string
      separator;  // ends a document, besides the end of each file; its bytes stay in the text
  std::uint64_t shard_tokens = std::uint64_t{1} << 28;
  DType dtype = DType::u16;  // u16 or u32
  bool force = false;
  bool progress = false;
};

struct PackedSplit {
  std::string path;
  std::uint64_t samples = 0;  // tokens or images
  std::uint64_t documents = 0;
  std::uint64_t shards = 0;
};

// Raises ExitCode::config for options that cannot be honoured, ExitCode::data for bad input,
// ExitCode::internal for a full disk. In every case the output is as it was before.
[[nodiscard]] std::vector<PackedSplit> pack_text(const PackTextOptions& options);

// "\n", "\t", "\0", "\\" and "\xNN" become the bytes they stand for. Raises ExitCode::config for
// anything else after a backslash.
[[nodiscard]] std::string unescape(const std::string& text);

}  // namespace trireme
