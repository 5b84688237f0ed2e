// SPDX-License-Identifier: Apache-2.0
// A work item for one thread: about a megabyte of text, and its tokens.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

namespace trireme {

// A document, or part of a long one.
struct DocumentPart {
  std::size_t bytes = 0;
  const std::string* file = nullptr;
  std::uint64_t offset = 0;  // in the file, for messages
  bool begins = true, ends = true;
};

struct TokenRun {
  std::size_t tokens = 0;
  bool begins = true;  // the part begins a document
};

struct TextBatch {
  std::string text;
  std::vector<DocumentPart> parts;  // of the text, in order; unless these are JSON lines
  std::string after;                // text after the last part, if its document continues
  // JSON lines, of one file:
  const std::string* lines_of = nullptr;
  std::uint64_t first_line = 1;

  // The result: a run per part, or per line with text.
  std::vector<std::uint32_t> ids;
  std::vector<std::uint8_t> counted;  // 1 for each target id; empty: all are
  std::vector<TokenRun> runs;
  bool last_part_is_open = false;  // its tokens depend on what follows; its run has no tokens
  std::uint64_t replaced = 0;      // invalid UTF-8
  std::vector<std::string> bad_lines;
  std::exception_ptr error;
};

}  // namespace trireme
