// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/token_text.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/tokenizer/letters.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::json;

// As in the tokenizers library, token by token.
void clean_up(std::string& text) {
  constexpr std::array<std::pair<const char*, const char*>, 11> spaces = {{{" .", "."},
                                                                           {" ?", "?"},
                                                                           {" !", "!"},
                                                                           {" ,", ","},
                                                                           {" ' ", "'"},
                                                                           {" n't", "n't"},
                                                                           {" 'm", "'m"},
                                                                           {" do not", " don't"},
                                                                           {" 's", "'s"},
                                                                           {" 've", "'ve"},
                                                                           {" 're", "'re"}}};
  for (const auto& [from, to] : spaces)
    replace_all(text, from, to);
}

int hex_digit(char letter) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  const std::size_t value = digits.find(letter);
  return value == std::string_view::npos ? -1 : static_cast<int>(value);
}

}  // namespace

class TokenTextReader {
 public:
  TokenTextReader(TokenText& to, const std::string& path) : to_(to), path_(path) {}

  void add(const json& it) {
    const auto type = it.at("type").get<std::string>();
    if (type == "Sequence") {
      for (const json& member : it.at("decoders").get_ref<const json::array_t&>())
        add(member);
    } else if (type == "WordPiece") {
      to_.joins_ = TokenText::Joins::word_pieces;
      to_.continuing_ = it.at("prefix").get<std::string>();
      to_.cleans_up_ = it.at("cleanup").get<bool>();
    } else if (type == "Metaspace") {
      to_.space_mark_ = it.at("replacement").get<std::string>();
      if (std::ranges::count_if(to_.space_mark_, [](char c) { return (c & 0xC0) != 0x80; }) != 1)
        fail(ExitCode::data, "{}: decoder.replacement is \"{}\", not one character", path_,
             to_.space_mark_);
      const bool legacy = it.value("add_prefix_space", true);
      const auto scheme = it.value("prepend_scheme", legacy ? "always" : "never");
      if (scheme != "never" && scheme != "first" && scheme != "always")
        fail(ExitCode::data,
             "{}: decoder.prepend_scheme is \"{}\"; supported: never, first, always", path_,
             scheme);
      to_.drops_first_mark_ = scheme != "never";
    } else if (type == "Replace" && it.at("pattern").contains("String")) {
      to_.replaced_.emplace_back(it.at("pattern").at("String").get<std::string>(),
                                 it.at("content").get<std::string>());
    } else if (type == "ByteFallback") {
      to_.bytes_ = true;
    } else if (type == "Strip" && it.at("stop").get<int>() == 0) {
      to_.stripped_ = it.at("content").get<std::string>();
      to_.most_stripped_ = it.at("start").get<std::size_t>();
    } else if (type != "Fuse") {
      fail(ExitCode::data,
           "{}: the decoder is {}, which is not supported here; supported: WordPiece, Metaspace, "
           "Replace of a text, ByteFallback, Fuse and Strip at the start, alone or in a Sequence, "
           "or null",
           path_, it.dump());
    }
  }

 private:
  TokenText& to_;
  const std::string& path_;
};

TokenText::TokenText(const std::string& decoder, const std::string& path) {
  try {
    const json read = parse_json(decoder);
    if (read.is_null()) {
      joins_ = Joins::with_spaces;
    } else {
      TokenTextReader(*this, path).add(read);
    }
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}: decoder: {}", path, error.what());
  }
}

std::string TokenText::of(std::string_view token, bool first) const {
  std::string text(token);
  constexpr std::size_t byte_size = 6;  // "<0x0A>"
  if (bytes_ && token.size() == byte_size && token.starts_with("<0x") && token.ends_with('>')) {
    const int high = hex_digit(token[3]), low = hex_digit(token[4]);
    if (high >= 0 && low >= 0) return {static_cast<char>(16 * high + low)};
  }
  for (const auto& [from, to] : replaced_)
    replace_all(text, from, to);
  if (!space_mark_.empty()) replace_all(text, space_mark_, first && drops_first_mark_ ? "" : " ");
  if (joins_ == Joins::directly || first) {
    if (cleans_up_) clean_up(text);
    return text;
  }
  if (joins_ == Joins::word_pieces && text.starts_with(continuing_)) {
    text.erase(0, continuing_.size());
  } else {
    text.insert(0, " ");
  }
  if (cleans_up_) clean_up(text);
  return text;
}

void TokenText::strip_start(std::string& text) const {
  std::size_t removed = 0;
  while (!stripped_.empty() && removed < most_stripped_ &&
         std::string_view(text).substr(removed * stripped_.size()).starts_with(stripped_))
    ++removed;
  text.erase(0, removed * stripped_.size());
}

}  // namespace trireme
