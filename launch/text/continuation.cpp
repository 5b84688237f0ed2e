// SPDX-License-Identifier: Apache-2.0
#include "launch/text/continuation.h"

#include <algorithm>
#include <string_view>

#include "launch/engine/text/text_generator.h"

namespace trireme {

std::string Continuation::shown_up_to(std::size_t end) {
  std::string text = text_.substr(shown_, end - shown_);
  shown_ = end;
  return text;
}

// Start of the first stop text that ends after `from`; npos: none.
std::size_t Continuation::first_stop(std::size_t from) const {
  std::size_t first = std::string::npos;
  for (const std::string& stop : rules_.texts) {
    const std::size_t begin = from < stop.size() ? 0 : from - stop.size() + 1;
    first = std::min(first, text_.find(stop, begin));
  }
  return first;
}

// Length without the longest suffix that may begin a stop text.
std::size_t Continuation::certain() const {
  std::size_t end = text_.size();
  for (const std::string& stop : rules_.texts) {
    const std::size_t begin = text_.size() < stop.size() ? 0 : text_.size() - stop.size() + 1;
    for (std::size_t i = std::max(begin, shown_); i < end; ++i) {
      if (stop.starts_with(std::string_view(text_).substr(i))) end = i;
    }
  }
  return end;
}

std::string Continuation::take(std::int32_t token) {
  if (token == not_finite || token == TextGenerator::ended) {
    reason_ = token == not_finite ? "not_finite" : "context";
    return shown_up_to(text_.size());
  }
  if (std::ranges::find(rules_.ids, token) != rules_.ids.end()) {
    reason_ = "stop";
    return shown_up_to(text_.size());
  }
  ids_.push_back(token);
  const std::size_t before = text_.size();
  if (words_.known()) text_ += words_.text_of(token);
  if (const std::size_t stop = first_stop(before); stop != std::string::npos) {
    text_.resize(stop);
    reason_ = "stop";
  } else if (std::ssize(ids_) >= rules_.tokens) {
    reason_ = "length";
  }
  return shown_up_to(over() ? text_.size() : certain());
}

}  // namespace trireme
