// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/normalizer.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <nlohmann/json.hpp>

#include "data/tokenizer/char_map.h"
#include "data/tokenizer/letters.h"
#include "data/tokenizer/split_pattern.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

using json = nlohmann::json;

// Calls change(code, to) for every code point; `to` is the new text.
template <typename Change>
void for_each_code_point(std::string& text, Change change) {
  std::string to;
  to.reserve(text.size());
  for (std::size_t at = 0; at < text.size();)
    change(next_code_point(text, at), to);
  text = std::move(to);
}

void lowercase(std::string& text) {
  for_each_code_point(text, append_lowercase);
}

void strip(std::string& text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (is_white_space(next_code_point(text, at))) continue;
    begin = std::min(begin, here);
    end = at;
  }
  if (right) text.resize(end);
  if (left) text.erase(0, std::min(begin, text.size()));
}

// RFC 4648; empty if it is not valid.
std::string from_base64(std::string_view text) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char letter : text.substr(0, text.find('='))) {
    const std::size_t digit = digits.find(letter);
    if (digit == std::string_view::npos) return "";
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFFU));
  }
  return bytes;
}

}  // namespace

class NormalizerReader {
 public:
  NormalizerReader(Normalizer& to, const std::string& path) : to_(to), path_(path) {}

  void add(const json& it) {
    const auto type = it.at("type").get<std::string>();
    if (type == "Sequence") {
      for (const json& member : it.at("normalizers").get_ref<const json::array_t&>())
        add(member);
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      add_form(type);
    } else if (type == "Lowercase") {
      step([](std::string& text) { lowercase(text); });
    } else if (type == "StripAccents") {
      remove(is_mark);
    } else if (type == "Strip") {
      add_strip(it.at("strip_left").get<bool>(), it.at("strip_right").get<bool>());
    } else if (type == "Prepend") {
      to_.steps_.emplace_back([what = it.at("prepend").get<std::string>()](
                                  std::string& text, bool begins, Splitter::Scratch&) {
        if (begins && !text.empty()) text.insert(0, what);
      });
    } else if (type == "Replace") {
      add_replace(it);
    } else if (type == "BertNormalizer") {
      add_bert(it);
    } else if (type == "Precompiled") {
      add_char_map(it.at("precompiled_charsmap"));
    } else {
      refuse(type,
             "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, "
             "BertNormalizer and Precompiled, alone or in a Sequence, or null");
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& found, std::string_view supported) const {
    fail(ExitCode::data, "{}: the normalizer is {}, which is not supported here; supported: {}",
         path_, found, supported);
  }

  template <typename Change>
  void step(Change change) {
    to_.steps_.emplace_back(
        [change](std::string& text, bool, Splitter::Scratch&) { change(text); });
  }
  void remove(bool (*removed)(char32_t)) {
    step([removed](std::string& text) {
      for_each_code_point(text, [removed](char32_t code, std::string& to) {
        if (!removed(code)) append_utf8(code, to);
      });
    });
  }
  void add_form(std::string_view name) {
    const UnicodeForm form = name == "NFC"    ? UnicodeForm::nfc
                             : name == "NFD"  ? UnicodeForm::nfd
                             : name == "NFKC" ? UnicodeForm::nfkc
                                              : UnicodeForm::nfkd;
    step([form](std::string& text) { text = in_form(text, form); });
  }
  void add_strip(bool left, bool right) {
    to_.steps_.emplace_back([=](std::string& text, bool begins, Splitter::Scratch&) {
      strip(text, left && begins, right);
    });
  }

  void add_bert(const json& it) {
    if (it.at("clean_text").get<bool>()) {
      step([](std::string& text) {
        for_each_code_point(text, [](char32_t code, std::string& to) {
          if (!is_removed(code)) append_utf8(is_white_space(code) ? U' ' : code, to);
        });
      });
    }
    if (it.at("handle_chinese_chars").get<bool>()) {
      step([](std::string& text) {
        for_each_code_point(text, [](char32_t code, std::string& to) {
          const std::string_view around = is_ideograph(code) ? " " : "";
          to += around;
          append_utf8(code, to);
          to += around;
        });
      });
    }
    const bool lower = it.at("lowercase").get<bool>();
    const auto strips = it.find("strip_accents");
    if (strips == it.end() || strips->is_null() ? lower : strips->get<bool>()) {
      add_form("NFD");
      remove(is_nonspacing);
    }
    if (lower) step(lowercase);
  }

  void add_replace(const json& it) {
    const json& pattern = it.at("pattern");
    const auto to = it.at("content").get<std::string>();
    if (pattern.find("String") != pattern.end()) {
      const auto from = pattern.at("String").get<std::string>();
      if (from.empty()) refuse("Replace of an empty text", "texts");
      to_.replaces_spaces_ |= from == " ";
      to_.local_ &= std::ranges::none_of(
          from, [](char letter) { return std::isalpha(static_cast<unsigned char>(letter)) != 0; });
      return step([from, to](std::string& text) { replace_all(text, from, to); });
    }
    const auto regex = pattern.at("Regex").get<std::string>();
    to_.local_ &= regex == " {2,}";
    const auto rule = std::make_shared<const Splitter>(SplitRule{.pattern = to_pcre2(regex, path_)},
                                                       path_ + ": the normalizer Replace");
    to_.steps_.emplace_back([rule, to](std::string& text, bool, Splitter::Scratch& scratch) {
      text = rule->replaced(text, to, scratch);
    });
  }

  void add_char_map(const json& charsmap) {
    if (charsmap.is_null()) return;
    const auto base64 = charsmap.get<std::string>();
    std::string bytes = from_base64(base64);
    if (bytes.empty() && !base64.empty())
      fail(ExitCode::data, "{}: precompiled_charsmap is not base64; get the file again", path_);
    const auto map = std::make_shared<const CharMap>(std::move(bytes), path_);
    step([map](std::string& text) { text = map->apply(text); });
  }

  Normalizer& to_;
  const std::string& path_;
};

Normalizer::Normalizer(const std::string& normalizer, const std::string& path) {
  try {
    if (const json read = parse_json(normalizer); !read.is_null())
      NormalizerReader(*this, path).add(read);
  } catch (const json::exception& error) {
    fail(ExitCode::data, "{}: normalizer: {}", path, error.what());
  }
}

std::string Normalizer::apply(std::string_view text, bool begins,
                              Splitter::Scratch& scratch) const {
  std::string result(text);
  for (const Step& step : steps_)
    step(result, begins, scratch);
  return result;
}

}  // namespace trireme
