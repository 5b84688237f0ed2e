// SPDX-License-Identifier: Apache-2.0
// The .idx file beside a .bin file of tokens, as Megatron-LM writes it (MMIDIDX, version 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// How the .bin file stores a token.
enum class MegatronType : std::uint8_t { u8 = 1, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };
[[nodiscard]] std::size_t size_of(MegatronType type);

struct MegatronIndex {
  std::string index_path, data_path;
  MegatronType type = MegatronType::u16;
  std::uint64_t sequences = 0;
  std::uint64_t documents = 0;
  std::uint64_t tokens = 0;
  std::uint64_t checksum = 0;  // XXH3-64 of all that the index says
};

// The .idx file that `path` names, by itself or as what stands before ".idx"; nothing where it
// names something else.
[[nodiscard]] std::optional<std::string> find_megatron_index(const std::string& path);

// Reads and checks all of an index: sizes that fit the files, sequences that lie one behind the
// other in the .bin file, documents that follow one another. Raises ExitCode::data, naming the file
// and what is wrong.
[[nodiscard]] MegatronIndex open_megatron_index(const std::string& index_path);

// The number of the first token of every document that has any, rising. Reads and checks the index
// once more.
[[nodiscard]] std::vector<std::uint64_t> document_starts(const MegatronIndex& index);

}  // namespace trireme
