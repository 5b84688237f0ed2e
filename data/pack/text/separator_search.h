// SPDX-License-Identifier: Apache-2.0
// Finds the ends of separators in a stream that arrives in pieces (Knuth, Morris and Pratt).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class SeparatorSearch {
 public:
  // An empty separator never matches.
  explicit SeparatorSearch(std::string separator);

  void reset() { matched_ = 0; }
  // Number of bytes up to the end of the next separator, or all bytes if none ends here.
  [[nodiscard]] std::size_t next_end(std::span<const std::byte> bytes, bool& found);

 private:
  std::string separator_;
  std::vector<std::size_t> fallback_;
  std::size_t matched_ = 0;
};

}  // namespace trireme
