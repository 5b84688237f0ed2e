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
  // An empty one is nowhere.
  explicit SeparatorSearch(std::string separator);

  void reset() { matched_ = 0; }
  // Bytes up to and including the next separator's last one; all of them when none ends here.
  [[nodiscard]] std::size_t next_end(std::span<const std::byte> bytes, bool& found);

 private:
  std::string separator_;
  std::vector<std::size_t> fallback_;
  std::size_t matched_ = 0;
};

}  // namespace trireme
