// SPDX-License-Identifier: Apache-2.0
// The .idx file of a Megatron-LM .bin token file (MMIDIDX, version 1); and token files without one,
// as nanoGPT writes: uint16 or uint32 from the first byte to the last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Storage type of a token.
enum class MegatronType : std::uint8_t { u8 = 1, i16 = 3, i32 = 4, i64 = 5, u16 = 8, u32 = 255 };
[[nodiscard]] std::size_t size_of(MegatronType type);

struct MegatronIndex {
  std::string index_path, data_path;
  MegatronType type = MegatronType::u16;
  std::uint64_t sequences = 0;
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of the whole index

  [[nodiscard]] bool alone() const { return index_path == data_path; }  // nanoGPT's
};

// The .idx file that `path` names, with or without ".idx"; or the .bin file itself if it has none;
// nothing if it names something else.
[[nodiscard]] std::optional<std::string> find_megatron_index(const std::string& path);

// Reads and checks an index: sizes that fit the files, contiguous sequences in the .bin file,
// contiguous documents. A .bin file is one sequence; `token_bytes` 0: by its content. Raises
// ExitCode::data, naming the file and the problem.
[[nodiscard]] MegatronIndex open_megatron_index(const std::string& index_path,
                                                std::int64_t token_bytes = 0);

// First tokens of all non-empty documents, ascending. Reads and checks the index again.
[[nodiscard]] std::vector<std::uint64_t> document_starts(const MegatronIndex& index);

}  // namespace trireme
