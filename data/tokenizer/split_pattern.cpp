// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/split_pattern.h"

#include <array>
#include <cctype>
#include <cstdint>

#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

// Unicode White_Space. PCRE2's \s also has U+180E.
constexpr std::string_view white_space =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
    "\\x{3000}";
constexpr std::string_view groups = "(?: (?i: (?= (?!";
constexpr std::string_view escapes = "\\p{..} \\P{..} \\s \\S \\d \\r \\n \\t and punctuation";

class PatternReader {
 public:
  PatternReader(std::string_view pattern, const std::string& place)
      : pattern_(pattern), place_(place) {}

  std::string read() {
    while (at_ < pattern_.size())
      read_one();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what, std::string_view supported) const {
    fail(ExitCode::data, "{}: the pattern '{}' has {} at byte {}, which is not supported; {} {}",
         place_, pattern_, what, at_, supported.empty() ? "" : "supported are", supported);
  }
  [[nodiscard]] char here(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  void keep(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void read_one() {
    switch (here()) {
      case '\\':
        return read_escape(false);
      case '[':
        return read_class();
      case '(':
        return read_group();
      case '{':
        return read_counts();
      case '^':
      case '$':
      case '.':
        refuse(std::string("'") + here() + "'", "classes such as [^\\r\\n]");
      default:
        return keep(1);
    }
  }

  void read_group() {
    if (here(1) != '?') return keep(1);
    for (const std::string_view known : {"(?:", "(?i:", "(?=", "(?!", "(?>"}) {
      if (pattern_.substr(at_).starts_with(known)) return keep(known.size());
    }
    refuse(fmt::format("the group '{}'", pattern_.substr(at_, 4)), groups);
  }

  // {n}, {n,} and {n,m}. A following sign makes them lazy in PCRE2, but not in Oniguruma.
  void read_counts() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view counts = pattern_.substr(at_, end - at_);
    const bool good = end != std::string_view::npos && counts.size() > 1 && counts[1] != ',' &&
                      counts.find_first_not_of("0123456789,", 1) == std::string_view::npos;
    const char next = end + 1 < pattern_.size() ? pattern_[end + 1] : '\0';
    if (!good || next == '+' || next == '?' || next == '*')
      refuse(fmt::format("the count '{}'", pattern_.substr(at_, 8)), "{n}, {n,} and {n,m}");
    keep(counts.size() + 1);
  }

  void read_escape(bool in_class) {
    const char kind = here(1);
    if (kind == 's' || (kind == 'S' && !in_class)) {
      if (!in_class) out_ += kind == 's' ? "[" : "[^";
      out_ += white_space;
      if (!in_class) out_ += ']';
      at_ += 2;
    } else if (kind == 'p' || kind == 'P') {
      read_property();
    } else if (kind == 'd' || kind == 'r' || kind == 'n' || kind == 't' || punctuation(kind)) {
      keep(2);
    } else {
      refuse(fmt::format("'\\{}'", kind), escapes);
    }
  }

  // Scripts and general categories, with the same names in both libraries; their groups differ.
  void read_property() {
    const std::size_t end = pattern_.find('}', at_);
    const std::string_view name = here(2) == '{' && end != std::string_view::npos
                                      ? pattern_.substr(at_ + 3, end - at_ - 3)
                                      : std::string_view{};
    constexpr std::string_view categories = "LMNPSZC";
    const bool category =
        !name.empty() && name.size() <= 2 && categories.find(name[0]) != std::string_view::npos;
    const bool script = name == "Han" || name == "Hiragana" || name == "Katakana" ||
                        name == "Hangul" || name == "Thai" || name == "Latin" || name == "Arabic" ||
                        name == "Hebrew" || name == "Greek" || name == "Cyrillic" ||
                        name == "Devanagari";
    if (!category && !script)
      refuse(fmt::format("'{}'", pattern_.substr(at_, 12)), "general categories and great scripts");
    keep(end - at_ + 1);
  }

  void read_class() {
    keep(1);
    if (here() == '^') keep(1);
    for (bool first = true; here() != ']' || first; first = false) {
      if (at_ >= pattern_.size()) refuse("a class without its ']'", "");
      if (here() == '[' || (here() == '&' && here(1) == '&') || here() == ']')
        refuse("a class inside a class", "one list of characters");
      here() == '\\' ? read_escape(true) : keep(1);
    }
    keep(1);
  }

  static bool punctuation(char letter) {
    constexpr std::string_view all = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ";
    return letter != '\0' && all.find(letter) != std::string_view::npos;
  }

  std::string_view pattern_;
  const std::string& place_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string to_pcre2(std::string_view pattern, const std::string& place) {
  return PatternReader(pattern, place).read();
}

std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    // Only ASCII punctuation is special, and can always be escaped.
    if (byte < 0x80 && std::ispunct(byte) != 0) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

namespace {

constexpr std::int16_t no_byte = -1;

// GPT-2's: printable Latin-1 bytes map to themselves, the others to U+0100 and up.
constexpr std::array<std::int16_t, 0x144> byte_of_letter = [] {
  std::array<std::int16_t, 0x144> table{};
  table.fill(no_byte);
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printed = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    table[printed ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return table;
}();

}  // namespace

std::optional<std::string> bytes_of_letters(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const char32_t letter = next_code_point(token, at);
    if (letter >= byte_of_letter.size() || byte_of_letter[letter] == no_byte) return std::nullopt;
    bytes.push_back(static_cast<char>(byte_of_letter[letter]));
  }
  return bytes;
}

}  // namespace trireme
