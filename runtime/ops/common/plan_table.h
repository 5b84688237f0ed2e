// SPDX-License-Identifier: Apache-2.0
// Private: a thread's cache of what it made per kind of library call. A look-up is a hash and
// hardly more than one comparison; it neither allocates nor locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace trireme::ops {

// Combines numbers into a hash.
class PlanHash {
 public:
  template <typename... Numbers>
  void add(Numbers... numbers) {
    ((hash_ = (hash_ ^ static_cast<std::uint64_t>(numbers)) * 0x9e3779b97f4a7c15ULL,
      hash_ ^= hash_ >> 29),
     ...);
  }
  [[nodiscard]] std::size_t value() const { return static_cast<std::size_t>(hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// Keys need == and a free function plan_hash(key). Values have stable addresses.
template <typename Key, typename Value>
class PlanTable {
 public:
  // Null if `key` is missing.
  [[nodiscard]] Value* find(const Key& key) const {
    return slots_.empty() ? nullptr : slots_[place_of(slots_, key)].value.get();
  }
  // Replaces an existing value.
  Value& insert(const Key& key, std::unique_ptr<Value> value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(slots_, key)];
    if (slot.value == nullptr) ++size_;
    slot.key = key;
    slot.value = std::move(value);
    return *slot.value;
  }
  void clear() {
    slots_.clear();
    size_ = 0;
  }

 private:
  struct Slot {
    Key key;
    std::unique_ptr<Value> value;  // null: free
  };
  using Slots = std::vector<Slot>;  // a power of two, at most half of them used

  [[nodiscard]] static std::size_t place_of(const Slots& slots, const Key& key) {
    std::size_t at = plan_hash(key) & (slots.size() - 1);
    while (slots[at].value != nullptr && !(slots[at].key == key))
      at = (at + 1) & (slots.size() - 1);
    return at;
  }
  void grow() {
    Slots larger(slots_.empty() ? 64 : 2 * slots_.size());
    for (Slot& slot : slots_) {
      if (slot.value != nullptr) larger[place_of(larger, slot.key)] = std::move(slot);
    }
    slots_ = std::move(larger);
  }

  Slots slots_;
  std::size_t size_ = 0;
};

}  // namespace trireme::ops
