// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer/byte_pairs.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "runtime/base/utf8.h"

namespace trireme {
namespace {

constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;
// Marks a symbol merged into the previous one; no token has this id.
constexpr std::uint32_t merged = ~std::uint32_t{0};

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace

BytePairs::BytePairs(const TokenizerSpec& spec)
    : byte_ids_(spec.byte_ids),
      unknown_(spec.unknown),
      of_characters_(spec.model == TokenModel::character_pairs),
      byte_fallback_(spec.byte_fallback),
      fuse_unknown_(spec.fuse_unknown),
      slots_(std::bit_ceil(2 * spec.merges.size() + 2)),
      shift_(64 - std::countr_zero(slots_.size())) {
  joined_.reserve(spec.merges.size());
  for (const TokenMerge& merge : spec.merges) {
    const std::uint64_t key = pair_key(merge.left, merge.right);
    std::size_t at = (key * golden) >> shift_;
    while (slots_[at].pair != Slot::none && slots_[at].pair != key)
      at = (at + 1) % slots_.size();
    // If a pair is listed twice, the last one counts.
    slots_[at] = {key, static_cast<std::uint32_t>(joined_.size())};
    joined_.push_back(merge.joined);
  }
  for (std::size_t id = 0; of_characters_ && id < spec.token_text.size(); ++id) {
    const std::string& text = spec.token_text[id];
    std::size_t end = 0;
    if (!spec.is_word[id] || text.empty()) continue;
    const char32_t code = next_code_point(text, end);
    if (end == text.size()) characters_.emplace(code, static_cast<std::uint32_t>(id));
  }
  if (!spec.whole_words) return;
  for (std::size_t id = 0; id < spec.token_text.size(); ++id) {
    if (spec.is_word[id]) words_.emplace(spec.token_text[id], static_cast<std::uint32_t>(id));
  }
}

std::int64_t BytePairs::rank_of(std::uint32_t left, std::uint32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t at = (key * golden) >> shift_;; at = (at + 1) % slots_.size()) {
    if (slots_[at].pair == key) return slots_[at].rank;
    if (slots_[at].pair == Slot::none) return -1;
  }
}

void BytePairs::encode(std::string_view word, Scratch& scratch,
                       std::vector<std::uint32_t>& ids) const {
  if (word.size() == 1 && !of_characters_)
    return ids.push_back(byte_ids_[static_cast<unsigned char>(word[0])]);
  if (word.size() > Scratch::Word::longest) return merge(word, scratch, ids);
  std::array<std::uint64_t, 3> key{};
  std::memcpy(key.data(), word.data(), word.size());
  key[2] |= std::uint64_t{word.size()} << 56;
  const std::uint64_t mixed = ((key[0] * golden) ^ std::rotl(key[1], 29) ^ key[2]) * golden;
  Scratch::Word& known = scratch.lately_[(mixed ^ mixed >> 32) >> 16 & (Scratch::lately - 1)];
  if (known.word != key) {
    const std::size_t first = ids.size();
    merge(word, scratch, ids);
    const std::size_t count = ids.size() - first;
    if (count > known.ids.size()) return;
    known.word = key;
    known.count = static_cast<std::uint32_t>(count);
    std::copy_n(ids.end() - static_cast<std::ptrdiff_t>(count), count, known.ids.begin());
    return;
  }
  ids.insert(ids.end(), known.ids.begin(), known.ids.begin() + known.count);
}

void BytePairs::push_pair(Scratch& scratch, std::int32_t place) const {
  const auto& symbols = scratch.symbols_;
  const Scratch::Symbol& left = symbols[static_cast<std::size_t>(place)];
  if (left.after < 0) return;
  const std::uint32_t right = symbols[static_cast<std::size_t>(left.after)].id;
  const std::int64_t rank = rank_of(left.id, right);
  if (rank < 0) return;
  scratch.pairs_.push_back(
      {static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(place), left.id, right});
  std::ranges::push_heap(scratch.pairs_, std::greater{}, &Scratch::Pair::order);
}

void BytePairs::begin_with(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  const auto add = [&](std::uint32_t id) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  const auto add_bytes = [&](std::string_view bytes) {
    for (const char byte : bytes)
      add(byte_ids_[static_cast<unsigned char>(byte)]);
  };
  if (!of_characters_) add_bytes(word);
  bool unknown_before = false;
  for (std::size_t at = 0; of_characters_ && at < word.size();) {
    const std::size_t begin = at;
    const auto known = characters_.find(next_code_point(word, at));
    if (known != characters_.end()) {
      add(known->second);
    } else if (byte_fallback_) {
      add_bytes(word.substr(begin, at - begin));
    } else if (!(unknown_before && fuse_unknown_)) {
      add(unknown_);
    }
    unknown_before = known == characters_.end();
  }
  if (!symbols.empty()) symbols.back().after = -1;
}

void BytePairs::merge(std::string_view word, Scratch& scratch,
                      std::vector<std::uint32_t>& ids) const {
  if (!words_.empty()) {
    if (const auto whole = words_.find(std::string(word)); whole != words_.end())
      return ids.push_back(whole->second);
  }
  auto& symbols = scratch.symbols_;
  scratch.pairs_.clear();
  begin_with(word, scratch);
  const auto size = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i + 1 < size; ++i)
    push_pair(scratch, i);
  while (!scratch.pairs_.empty()) {
    std::ranges::pop_heap(scratch.pairs_, std::greater{}, &Scratch::Pair::order);
    const Scratch::Pair pair = scratch.pairs_.back();
    scratch.pairs_.pop_back();
    const auto place = static_cast<std::int32_t>(pair.order & 0xFFFFFFFFU);
    Scratch::Symbol& left = symbols[static_cast<std::size_t>(place)];
    // Either may have been merged since.
    if (left.id != pair.left || left.after < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<std::size_t>(left.after)];
    if (right.id != pair.right) continue;
    left.id = joined_[pair.order >> 32];
    right.id = merged;
    left.after = right.after;
    if (left.after >= 0) symbols[static_cast<std::size_t>(left.after)].before = place;
    if (left.before >= 0) push_pair(scratch, left.before);
    push_pair(scratch, place);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].after)
    ids.push_back(symbols[static_cast<std::size_t>(i)].id);
}

}  // namespace trireme
