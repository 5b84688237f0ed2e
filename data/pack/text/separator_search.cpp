// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/separator_search.h"

#include <utility>

namespace trireme {

SeparatorSearch::SeparatorSearch(std::string separator)
    : separator_(std::move(separator)), fallback_(separator_.size(), 0) {
  for (std::size_t i = 1, match = 0; i < separator_.size(); ++i) {
    while (match > 0 && separator_[i] != separator_[match])
      match = fallback_[match - 1];
    if (separator_[i] == separator_[match]) ++match;
    fallback_[i] = match;
  }
}

std::size_t SeparatorSearch::next_end(std::span<const std::byte> bytes, bool& found) {
  found = false;
  if (separator_.empty()) return bytes.size();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = static_cast<char>(bytes[i]);
    while (matched_ > 0 && byte != separator_[matched_])
      matched_ = fallback_[matched_ - 1];
    if (byte == separator_[matched_]) ++matched_;
    if (matched_ == separator_.size()) {
      matched_ = 0;
      found = true;
      return i + 1;
    }
  }
  return bytes.size();
}

}  // namespace trireme
