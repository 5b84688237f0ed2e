// SPDX-License-Identifier: Apache-2.0
// The tokens around a text that a tokenizer.json's post-processor defines, such as [CLS] and [SEP].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// One text is prefix, text, suffix (`middle` is empty); a pair is prefix, first text, middle,
// second text, suffix.
struct TextFrame {
  std::vector<std::uint32_t> prefix, middle, suffix;
  // The token type of a pair's second text and its suffix is 1, as in BERT, and so is that of the
  // last `of_second` tokens of the middle; all other types are 0.
  bool second_type = false;
  std::size_t of_second = 0;
};

// Of a post_processor as JSON; "null" and "" put nothing around texts. Raises ExitCode::data,
// naming `path` and the part, for post-processors that are not a frame.
[[nodiscard]] TextFrame parse_frame(const std::string& post_processor, bool pair,
                                    const std::string& path);

}  // namespace trireme
