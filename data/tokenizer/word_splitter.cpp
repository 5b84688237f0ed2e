// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/word_splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/tokenizer/letters.h"
#include "data/tokenizer/split_pattern.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

using json = nlohmann::json;
using Word = WordSplitter::Word;

void add_part(const Word& of, TextSpan span, std::vector<Word>& words) {
  if (span.begin < span.end)
    words.push_back(
        {of.text.substr(span.begin, span.end - span.begin), of.first && span.begin == 0});
}

// At code points that separate(); these are words of their own if `kept`.
template <typename Separates>
void split_at(const Word& word, bool kept, Separates separates, std::vector<Word>& words) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < word.text.size();) {
    const std::size_t here = at;
    if (!separates(next_code_point(word.text, at))) continue;
    add_part(word, {done, here}, words);
    if (kept) add_part(word, {here, at}, words);
    done = at;
  }
  add_part(word, {done, word.text.size()}, words);
}

enum class Prepends : std::uint8_t { never, first, always };

// Writes spaces as a mark, and begins words with it.
struct Metaspace {
  std::string mark;
  Prepends prepends = Prepends::always;
  bool splits = true;

  void operator()(Word word, std::vector<Word>& words) const {
    std::string text;
    for (const char byte : word.text)
      byte == ' ' ? text.append(mark) : text.append(1, byte);
    const bool wanted = prepends == Prepends::always || (prepends == Prepends::first && word.first);
    if (wanted && !text.starts_with(mark)) text.insert(0, mark);
    word.text = std::move(text);
    std::size_t done = 0;
    for (std::size_t at = 0; splits && at != std::string::npos; at = word.text.find(mark, at + 1)) {
      add_part(word, {done, at}, words);
      done = at;
    }
    add_part(word, {done, word.text.size()}, words);
  }
};

}  // namespace

class WordSplitterReader {
 public:
  WordSplitterReader(WordSplitter& to, bool spaces_replaced, const std::string& path)
      : to_(to), spaces_replaced_(spaces_replaced), path_(path) {}

  void add(const json& it) {
    const auto type = it.at("type").get<std::string>();
    if (type == "Sequence") {
      for (const json& member : it.at("pretokenizers").get_ref<const json::array_t&>())
        add(member);
    } else if (type == "BertPreTokenizer") {
      at_code_points(false, is_white_space);
      at_code_points(true, is_punctuation);
    } else if (type == "WhitespaceSplit") {
      at_code_points(false, is_white_space);
    } else if (type == "Whitespace") {
      // \w+|[^\w\s]+ of Rust's regular expressions
      constexpr const char* letter = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}";
      add_rule({.pattern = fmt::format("[{0}]+|{1}", letter,
                                       to_pcre2("[^\\s]", path_).insert(2, letter) + "+"),
                .behavior = SplitBehavior::removed,
                .invert = true});
      to_.splits_at_spaces_ = true;
    } else if (type == "Punctuation") {
      const auto behavior = it.value("behavior", "Isolated");
      if (behavior != "Isolated" && behavior != "Removed")
        refuse("Punctuation with the behavior " + behavior, "Isolated and Removed");
      at_code_points(behavior == "Isolated", is_punctuation);
    } else if (type == "Digits") {
      add_rule({.pattern = "\\p{N}",
                .behavior = it.at("individual_digits").get<bool>() ? SplitBehavior::isolated
                                                                   : SplitBehavior::contiguous});
    } else if (type == "Split") {
      add_split(it);
    } else if (type == "Metaspace") {
      add_metaspace(it);
    } else {
      refuse(type,
             "BertPreTokenizer, Whitespace, WhitespaceSplit, Punctuation, Digits, Split and "
             "Metaspace, alone or in a Sequence, null, or ByteLevel with a BPE model");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& found, std::string_view supported) const {
    fail(ExitCode::data, "{}: pre_tokenizer is {}, which is not supported here; supported: {}",
         path_, found, supported);
  }

  void at_code_points(bool kept, bool (*separates)(char32_t)) {
    to_.steps_.emplace_back([=](const Word& word, Splitter::Scratch&, std::vector<Word>& words) {
      split_at(word, kept, separates, words);
    });
    to_.splits_at_spaces_ |= separates == is_white_space;
  }
  void add_rule(const SplitRule& rule) {
    const auto splitter =
        std::make_shared<const Splitter>(rule, path_ + ": the pre_tokenizer's Split");
    to_.steps_.emplace_back(
        [splitter](const Word& word, Splitter::Scratch& scratch, std::vector<Word>& words) {
          std::vector<TextSpan> spans;
          splitter->split(word.text, scratch, spans);
          for (const TextSpan& span : spans)
            add_part(word, span, words);
        });
  }

  void add_split(const json& it) {
    const json& pattern = it.at("pattern");
    const bool literal = pattern.find("String") != pattern.end();
    const auto text = pattern.at(literal ? "String" : "Regex").get<std::string>();
    const auto behavior = split_behavior_of(it.at("behavior").get<std::string>());
    if (!behavior) refuse("Split with an unknown behavior", split_behavior_names());
    // A space that was replaced splits nothing, as in Gemma.
    to_.local_ &= to_.splits_at_spaces_ || (literal && text == " " && spaces_replaced_);
    add_rule({.pattern = literal ? literal_pattern(text) : to_pcre2(text, path_),
              .behavior = *behavior,
              .invert = it.value("invert", false)});
  }

  void add_metaspace(const json& it) {
    Metaspace step{.mark = it.at("replacement").get<std::string>()};
    const bool legacy = it.value("add_prefix_space", true);
    const auto scheme = it.value("prepend_scheme", legacy ? "always" : "never");
    constexpr std::array schemes = {"never", "first", "always"};
    const auto* const found = std::ranges::find(schemes, scheme);
    if (found == schemes.end() || step.mark.empty())
      refuse(fmt::format("Metaspace with prepend_scheme {}", scheme),
             fmt::format("{}", fmt::join(schemes, ", ")));
    step.prepends = static_cast<Prepends>(found - schemes.begin());
    step.splits = it.value("split", true);
    to_.splits_at_spaces_ |= step.splits;
    to_.steps_.emplace_back([step](Word word, Splitter::Scratch&, std::vector<Word>& words) {
      step(std::move(word), words);
    });
  }

  WordSplitter& to_;
  bool spaces_replaced_;
  const std::string& path_;
};

WordSplitter::WordSplitter(const std::string& pre_tokenizer, bool spaces_replaced,
                           const std::string& path) {
  try {
    if (const json read = parse_json(pre_tokenizer); !read.is_null())
      WordSplitterReader(*this, spaces_replaced, path).add(read);
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}: pre_tokenizer: {}", path, error.what());
  }
}

void WordSplitter::split(std::vector<Word>& words, Splitter::Scratch& scratch) const {
  std::vector<Word> finer;
  for (const Step& step : steps_) {
    finer.clear();
    for (Word& word : words)
      step(std::move(word), scratch, finer);
    std::swap(words, finer);
  }
}

}  // namespace trireme
