// SPDX-License-Identifier: Apache-2.0
// Names that other frameworks give to our keys.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace trireme::config {

// A key, and its names in PyTorch, Megatron-LM, DeepSpeed, Hugging Face, Lightning and llm.c,
// separated by blanks. A name may stand in several rows.
struct Synonyms {
  std::string_view key, names;
};
[[nodiscard]] std::span<const Synonyms> all_synonyms();

// The keys that others call `name`; case is ignored, and - is _.
[[nodiscard]] std::vector<std::string_view> keys_called(std::string_view name);

}  // namespace trireme::config
