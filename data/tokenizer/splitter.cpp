// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/splitter.h"

#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/utf8.h"

namespace trireme {
namespace {

// Stack of compiled patterns: grows as nested repeats need it.
constexpr std::size_t first_stack_bytes = 32 << 10, last_stack_bytes = 64 << 20;

std::string pcre2_text(int code) {
  std::array<PCRE2_UCHAR8, 256> text{};
  if (pcre2_get_error_message_8(code, text.data(), text.size()) < 0)
    return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(text.data());
}

template <typename Pointer>
Pointer* made(Pointer* pointer, std::string_view call) {
  if (pointer == nullptr) library_failed(call, "out of memory");
  return pointer;
}

template <auto release>
struct Release {
  template <typename Object>
  void operator()(Object* object) const {
    release(object);
  }
};
template <typename Object, auto release>
using Owner = std::unique_ptr<Object, Release<release>>;

}  // namespace

struct Splitter::Code {
  Owner<pcre2_code_8, pcre2_code_free_8> code;
};

struct Splitter::Scratch::State {
  Owner<pcre2_match_data_8, pcre2_match_data_free_8> match;
  Owner<pcre2_match_context_8, pcre2_match_context_free_8> context;
  Owner<pcre2_jit_stack_8, pcre2_jit_stack_free_8> stack;
  std::vector<std::pair<TextSpan, bool>> marked;  // true: a match

  // The first match of `code` at or after `from`. False if there is none, or if in an open text it
  // depends on what follows.
  bool find(const pcre2_code_8* code, std::string_view text, std::size_t from, bool open,
            TextSpan& found) {
    const std::uint32_t options = PCRE2_NO_UTF_CHECK | (open ? PCRE2_PARTIAL_HARD : 0U);
    const int status = pcre2_match_8(code, reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(),
                                     from, options, match.get(), context.get());
    if (status == PCRE2_ERROR_NOMATCH || status == PCRE2_ERROR_PARTIAL) return false;
    if (status < 0) library_failed("pcre2_match(...)", pcre2_text(status), ExitCode::data);
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer_8(match.get());
    found = {ends[0], ends[1]};
    return true;
  }
};

Splitter::Scratch::Scratch() : state_(std::make_unique<State>()) {
  state_->match.reset(made(pcre2_match_data_create_8(1, nullptr), "pcre2_match_data_create(1)"));
  state_->context.reset(
      made(pcre2_match_context_create_8(nullptr), "pcre2_match_context_create()"));
  // Null if the library lacks its JIT compiler; it then interprets patterns.
  state_->stack.reset(pcre2_jit_stack_create_8(first_stack_bytes, last_stack_bytes, nullptr));
  pcre2_jit_stack_assign_8(state_->context.get(), nullptr, state_->stack.get());
}
Splitter::Scratch::~Scratch() = default;
Splitter::Scratch::Scratch(Scratch&&) noexcept = default;
Splitter::Scratch& Splitter::Scratch::operator=(Scratch&&) noexcept = default;

Splitter::Splitter(const SplitRule& rule, const std::string& place)
    : code_(std::make_unique<Code>()), behavior_(rule.behavior), invert_(rule.invert) {
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code.reset(pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(rule.pattern.data()),
                                    rule.pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &at,
                                    nullptr));
  if (!code_->code)
    fail(ExitCode::data, "{}: the pattern '{}' is invalid at byte {}: {}", place, rule.pattern, at,
         pcre2_text(error));
  std::uint32_t matches_empty = 0;
  if (pcre2_pattern_info_8(code_->code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty) != 0 ||
      matches_empty != 0)
    fail(ExitCode::data, "{}: the pattern '{}' matches the empty text, which is not supported",
         place, rule.pattern);
  const int status =
      pcre2_jit_compile_8(code_->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
  if (status != 0 && status != PCRE2_ERROR_JIT_BADOPTION)
    library_failed("pcre2_jit_compile(...)", pcre2_text(status));
}
Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;

bool Splitter::is_local() const {
  return behavior_ == SplitBehavior::isolated || behavior_ == SplitBehavior::removed;
}

bool Splitter::matches(std::string_view text, Scratch& scratch) const {
  TextSpan found;
  return scratch.state_->find(code_->code.get(), text, 0, false, found);
}

std::size_t Splitter::split_part(std::string_view text, std::size_t stop, bool open,
                                 Scratch& scratch, std::vector<TextSpan>& pieces) const {
  TRIREME_EXPECTS(is_local(), "a rule whose pieces follow from where they begin");
  const bool keeps_matches = behavior_ == SplitBehavior::isolated || invert_;
  const bool keeps_rest = behavior_ == SplitBehavior::isolated || !invert_;
  std::size_t end = 0;
  TextSpan match;
  while (end < stop) {
    if (!scratch.state_->find(code_->code.get(), text, end, open, match)) {
      if (open) return end;
      match = {text.size(), text.size()};
    }
    if (match.begin > end && keeps_rest) pieces.push_back({end, match.begin});
    if (match.begin >= stop) return match.begin;
    if (keeps_matches) pieces.push_back(match);
    end = match.end;
  }
  return end;
}

void Splitter::split(std::string_view text, Scratch& scratch, std::vector<TextSpan>& pieces) const {
  const bool keeps_matches = behavior_ != SplitBehavior::removed || invert_;
  const bool keeps_rest = behavior_ != SplitBehavior::removed || !invert_;
  auto& marked = scratch.state_->marked;
  marked.clear();
  const auto add = [&](TextSpan span, bool match) {
    if (!is_local()) {
      marked.push_back({span, match != invert_});
    } else if (match ? keeps_matches : keeps_rest) {
      pieces.push_back(span);
    }
  };
  std::size_t end = 0;
  TextSpan match;
  while (end < text.size() && scratch.state_->find(code_->code.get(), text, end, false, match)) {
    if (match.begin > end) add({end, match.begin}, false);
    add(match, true);
    end = match.end;
  }
  if (end < text.size()) add({end, text.size()}, false);
  if (!is_local()) join(marked, pieces);
}

// Joins a match with the piece before or after it, unless that is a match; or merges all adjacent
// ones.
void Splitter::join(const std::vector<std::pair<TextSpan, bool>>& marked,
                    std::vector<TextSpan>& pieces) const {
  const std::size_t first = pieces.size();
  const bool backwards = behavior_ == SplitBehavior::with_next;
  bool before = false;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    const auto& [span, match] = marked[backwards ? marked.size() - 1 - i : i];
    const bool joins = behavior_ == SplitBehavior::contiguous ? match == before : match && !before;
    before = match;
    if (!joins || pieces.size() == first) {
      pieces.push_back(span);
    } else if (backwards) {
      pieces.back().begin = span.begin;
    } else {
      pieces.back().end = span.end;
    }
  }
  if (backwards) std::reverse(pieces.begin() + static_cast<std::ptrdiff_t>(first), pieces.end());
}

namespace {

constexpr utf8proc_int32_t plane_end = 0x10000;
// No lower code point composes with another or changes.
constexpr unsigned char first_lead_that_may = 0xCC;  // of U+0300

// Marks and composing letters newer than Unicode 9. The tokenizers library has that version's
// tables, which leave them unchanged; scripts/checks/check_tokenizer.py checks all of them.
constexpr std::array<std::pair<char32_t, char32_t>, 39> newer = {
    {{0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
     {0x1715, 0x1715},   {0x1ABF, 0x1AFF},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
     {0x105C0, 0x105FF}, {0x10D24, 0x10D8F}, {0x10EAB, 0x10EFF}, {0x10F46, 0x10F50},
     {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11380, 0x113FF},
     {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11943}, {0x119E0, 0x119E0},
     {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D97},
     {0x11F41, 0x11F42}, {0x16100, 0x1613F}, {0x16D40, 0x16D7F}, {0x16FF0, 0x16FF1},
     {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
     {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6C0, 0x1E6FF}}};

bool is_newer(char32_t code) {
  const auto after =
      std::ranges::upper_bound(newer, code, {}, [](const auto& range) { return range.first; });
  return after != newer.begin() && code <= std::prev(after)->second;
}

// Code points that NFC leaves unchanged in any context.
class Inert {
 public:
  Inert() {
    std::array<utf8proc_int32_t, 32> parts{};
    for (utf8proc_int32_t code = 0; code < plane_end; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      const utf8proc_property_t* const property = utf8proc_get_property(code);
      int bound = 0;
      const auto count =
          utf8proc_decompose_char(code, parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &bound);
      // All but the first part of a decomposition can compose.
      for (utf8proc_ssize_t i = 1; i < count; ++i) {
        const auto part = static_cast<std::size_t>(parts[static_cast<std::size_t>(i)]);
        if (part < plane_end) changes_.set(part);
      }
      const bool kept = count == 1 ? parts[0] == code : recomposes(parts.data(), count, code);
      if (property->combining_class != 0 || !kept) changes_.set(static_cast<std::size_t>(code));
    }
  }
  [[nodiscard]] bool operator()(char32_t code) const {
    if (code < plane_end) return !changes_[code];
    // Emoji and ideographs; some of the other code points above combine.
    return (code >= 0x1F000 && code <= 0x1FAFF) || (code >= 0x20000 && code < 0x2F800);
  }

 private:
  static bool recomposes(utf8proc_int32_t* parts, utf8proc_ssize_t count, utf8proc_int32_t code) {
    std::array<utf8proc_int32_t, 32> copy{};
    std::copy(parts, parts + count, copy.begin());
    const auto length = utf8proc_normalize_utf32(
        copy.data(), count, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    return length == 1 && copy[0] == code;
  }

  std::bitset<plane_end> changes_;
};

bool is_composed(std::string_view text) {
  static const Inert inert;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < first_lead_that_may) {
      ++at;
    } else if (!inert(next_code_point(text, at))) {
      return false;
    }
  }
  return true;
}

void append_composed(std::string_view text, std::string& to) {
  if (text.empty()) return;
  utf8proc_uint8_t* whole = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &whole,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(whole, &std::free);
  if (length < 0) library_failed("utf8proc_map(...)", utf8proc_errmsg(length));
  to.append(reinterpret_cast<const char*>(whole), static_cast<std::size_t>(length));
}

}  // namespace

std::string_view composed(std::string_view text, std::string& buffer) {
  if (is_composed(text)) return text;
  buffer.clear();
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (static_cast<unsigned char>(text[at]) < first_lead_that_may) {
      ++at;
    } else if (is_newer(next_code_point(text, at))) {
      append_composed(text.substr(done, here - done), buffer);
      buffer += text.substr(here, at - here);
      done = at;
    }
  }
  append_composed(text.substr(done), buffer);
  return buffer;
}

}  // namespace trireme
