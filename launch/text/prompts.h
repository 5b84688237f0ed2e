// SPDX-License-Identifier: Apache-2.0
// The prompts of `trireme generate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/text/words.h"

namespace trireme {

struct Prompt {
  std::string text;  // "": given by ids
  std::vector<std::int32_t> ids;
  std::string where;  // for messages: the option, or a file's line
};

[[nodiscard]] Prompt prompt_of_text(const std::string& text, const Words& words,
                                    const std::string& what = "--prompt");
// One JSON object per line: {"prompt": "..."} or {"prompt_ids": [...]}; other keys are ignored.
// Raises ExitCode::config, naming the line.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path, const Words& words);

// The end tokens from the generation_config.json (or config.json) that an import left in the run
// directory.
[[nodiscard]] std::vector<std::int32_t> end_tokens_of_run(const std::string& run);

}  // namespace trireme
