// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the nearest of a list of words, and our keys by the names of other frameworks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

class KeyTable;

// Edits (insert, delete, replace, swap neighbours) from `from` to `to`: optimal string alignment
// distance.
[[nodiscard]] std::size_t edit_distance(std::string_view from, std::string_view to);

// The word nearest to `text` if it is near enough to be a typo, else "". Case is ignored.
[[nodiscard]] std::string_view closest(std::string_view text,
                                       std::span<const std::string_view> words);

// A key, and its names in PyTorch, Megatron-LM, DeepSpeed, Hugging Face, Lightning and llm.c,
// separated by blanks. A name may stand in several rows.
struct Synonyms {
  std::string_view key, names;
};
[[nodiscard]] std::span<const Synonyms> all_synonyms();
// The keys that others call `name`; case is ignored, and - is _.
[[nodiscard]] std::vector<std::string_view> keys_called(std::string_view name);

// Advice for an unknown key: "did you mean model.heads?" or the names in its section.
[[nodiscard]] std::string advice_for_unknown_key(const KeyTable& keys, std::string_view key);

}  // namespace trireme::config
