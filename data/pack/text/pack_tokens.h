// SPDX-License-Identifier: Apache-2.0
// Encodes text to tokens and spools them, because their number is known only at the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/pack/pack_text.h"
#include "data/pack/text/text_source.h"
#include "data/pack/text/token_spool.h"
#include "data/tokenizer/tokenizer.h"

namespace trireme {

struct SpooledTokens {
  std::unique_ptr<TokenSpool> spool;
  DType dtype = DType::u16;
  std::string tokenizer = "bytes";
  std::uint64_t vocabulary = 256;
  std::uint64_t replaced = 0;          // invalid UTF-8 that became U+FFFD
  std::vector<std::string> bad_lines;  // messages, one per skipped line
};

// That holds every id: the wanted one, or the narrowest. Raises ExitCode::config for one too
// narrow.
[[nodiscard]] DType token_dtype(std::uint64_t vocabulary, std::optional<DType> wanted);

// Raises ExitCode::data for text that cannot be read, ExitCode::config for options that the
// tokenizer does not support. Adds begin and end tokens to each document.
[[nodiscard]] SpooledTokens spool_tokens(const std::vector<TextPart>& parts,
                                         const PackTextOptions& options,
                                         const std::string& directory);

}  // namespace trireme
