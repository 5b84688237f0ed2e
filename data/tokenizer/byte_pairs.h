// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of a word: starts from its bytes or characters and repeatedly merges the pair
// that was learned first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/spec.h"

namespace trireme {

class BytePairs {
 public:
  explicit BytePairs(const TokenizerSpec& spec);

  // Per-thread memory, mostly a cache of recent words, which are most of the input.
  class Scratch {
   public:
    Scratch() : lately_(lately) {}

   private:
    friend class BytePairs;
    // A cache entry. The word's last byte is its length, so an empty entry matches no word.
    struct alignas(64) Word {
      static constexpr std::size_t longest = 23;
      std::array<std::uint64_t, 3> word{};
      std::uint32_t count = 0;
      std::array<std::uint32_t, 9> ids{};
    };
    struct Symbol {
      std::uint32_t id;
      std::int32_t before, after;  // -1: none
    };
    struct Pair {
      std::uint64_t order;  // rank, then place; the smallest is merged first
      std::uint32_t left, right;
    };
    static constexpr std::size_t lately = 1 << 16;  // words, 4 MB

    std::vector<Word> lately_;
    std::vector<Symbol> symbols_;
    std::vector<Pair> pairs_;  // a heap
  };

  void encode(std::string_view word, Scratch& scratch, std::vector<std::uint32_t>& ids) const;

 private:
  struct Slot {
    std::uint64_t pair = none;
    std::uint32_t rank = 0;
    static constexpr std::uint64_t none = ~std::uint64_t{0};
  };
  // The index of a pair's merge; -1: none.
  [[nodiscard]] std::int64_t rank_of(std::uint32_t left, std::uint32_t right) const;
  void push_pair(Scratch& scratch, std::int32_t place) const;
  // The symbols that merging begins with.
  void begin_with(std::string_view word, Scratch& scratch) const;
  void merge(std::string_view word, Scratch& scratch, std::vector<std::uint32_t>& ids) const;

  std::array<std::uint32_t, 256> byte_ids_;
  // If words begin as characters:
  std::unordered_map<char32_t, std::uint32_t> characters_;
  std::uint32_t unknown_ = 0;
  bool of_characters_, byte_fallback_, fuse_unknown_;
  std::vector<std::uint32_t> joined_;  // by rank
  std::vector<Slot> slots_;            // open addressing
  int shift_ = 0;
  // For whole words that are tokens.
  std::unordered_map<std::string, std::uint32_t> words_;
};

}  // namespace trireme
