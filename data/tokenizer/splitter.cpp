// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/tokenizer/splitter.h"

#include <pcre2.h>

#include <algorithm>
#include <array>
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

std::string Splitter::replaced(std::string_view text, std::string_view to, Scratch& scratch) const {
  std::string result;
  std::size_t done = 0;
  TextSpan match;
  while (done < text.size() && scratch.state_->find(code_->code.get(), text, done, false, match)) {
    result.append(text, done, match.begin - done).append(to);
    done = match.end;
  }
  return result.append(text, std::min(done, text.size()));
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

}  // namespace trireme
