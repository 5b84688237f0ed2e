// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/metadata_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <span>

namespace trireme::fuzz {
namespace {

constexpr std::size_t max_blocks = 256;

void mix(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c) {
  a = (a - c) ^ std::rotl(c, 4), c += b;
  b = (b - a) ^ std::rotl(a, 6), a += c;
  c = (c - b) ^ std::rotl(b, 8), b += a;
  a = (a - c) ^ std::rotl(c, 16), c += b;
  b = (b - a) ^ std::rotl(a, 19), a += c;
  c = (c - b) ^ std::rotl(b, 4), b += a;
}

std::uint32_t last_mix(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  return (c ^ b) - std::rotl(b, 24);
}

// Bob Jenkins' lookup3 (hashlittle, initial value 0), the checksum of metadata.
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    if (at < bytes.size())
      std::memcpy(&value, bytes.data() + at, std::min<std::size_t>(4, bytes.size() - at));
    return value;
  };
  if (bytes.empty()) return c;
  while (true) {
    a += word(0), b += word(4), c += word(8);
    if (bytes.size() <= 12) return last_mix(a, b, c);
    mix(a, b, c);
    bytes = bytes.subspan(12);
  }
}

class Finder {
 public:
  explicit Finder(const std::string& file) : file_(file) {}

  std::vector<MetadataBlock> find() {
    add(0, 48);
    each("OHDR", [&](std::size_t at) { object_header(at); });
    each("FRHP", [&](std::size_t at) { heap(at); });
    each("BTHD", [&](std::size_t at) { tree(at); });
    each("FHDB", [&](std::size_t at) { direct_block(at); });
    return std::move(blocks_);
  }

 private:
  [[nodiscard]] std::optional<std::uint64_t> number(std::size_t at, std::size_t bytes) const {
    if (at > file_.size() || bytes > file_.size() - at) return std::nullopt;
    std::uint64_t value = 0;
    std::memcpy(&value, file_.data() + at, bytes);
    return value;
  }
  [[nodiscard]] std::uint64_t or_zero(std::size_t at, std::size_t bytes) const {
    return number(at, bytes).value_or(0);
  }

  template <typename Visit>
  void each(const char* signature, Visit&& visit) {
    for (std::size_t at = file_.find(signature); at != std::string::npos;
         at = file_.find(signature, at + 1))
      visit(at);
  }

  bool add(std::uint64_t first, std::uint64_t bytes) {
    if (bytes < 8 || first > file_.size() || bytes > file_.size() - first) return false;
    if (blocks_.size() >= max_blocks || !starts_.insert(first).second) return false;
    blocks_.push_back({first, bytes, first + bytes - 4});
    return true;
  }

  void object_header(std::size_t at) {
    const std::uint64_t flags = or_zero(at + 5, 1);
    const std::size_t width = std::size_t{1} << (flags & 3);
    const std::size_t size_at =
        at + 6 + ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    const std::uint64_t content = or_zero(size_at, width);
    if (content < file_.size() && add(at, size_at - at + width + content + 4))
      continuations(size_at + width, content, (flags & 4) != 0);
  }

  void continuations(std::size_t at, std::size_t bytes, bool ordered) {
    const std::size_t head = ordered ? 6 : 4;
    for (const std::size_t end = at + bytes; at + head <= end;) {
      const std::uint64_t type = or_zero(at, 1), size = or_zero(at + 1, 2);
      const std::uint64_t address = or_zero(at + head, 8), length = or_zero(at + head + 8, 8);
      if (type == 0x10 && add(address, length)) continuations(address + 4, length - 8, ordered);
      at += head + size;
    }
  }

  void heap(std::size_t at) {
    if (!add(at, 146)) return;
    offset_bytes_ = (or_zero(at + 128, 2) + 7) / 8;
    first_block_ = or_zero(at + 112, 8);
    const std::uint64_t width = or_zero(at + 110, 2), rows = or_zero(at + 140, 2);
    if (rows > 0) add(or_zero(at + 132, 8), 5 + 8 + offset_bytes_ + rows * width * 8 + 4);
  }

  void tree(std::size_t at) {
    if (!add(at, 38)) return;
    add(or_zero(at + 16, 8), 6 + or_zero(at + 24, 2) * or_zero(at + 10, 2) + 4);
  }

  // Its size is a power of two times the heap's first block; takes the matching one.
  void direct_block(std::size_t at) {
    constexpr std::uint64_t largest = 64 << 10;
    if (first_block_ == 0 || first_block_ > largest || offset_bytes_ > 8) return;
    const std::size_t checksum = at + 5 + 8 + offset_bytes_;
    std::optional<MetadataBlock> best;
    for (std::uint64_t bytes = first_block_; bytes <= std::min(largest, file_.size() - at);
         bytes *= 2) {
      const MetadataBlock block{at, bytes, checksum};
      if (checksum + 4 > at + bytes) continue;
      if (!best) best = block;
      if (matches(file_, block)) best = block;
    }
    if (best && starts_.insert(at).second) blocks_.push_back(*best);
  }

  const std::string& file_;
  std::vector<MetadataBlock> blocks_;
  std::set<std::uint64_t> starts_;
  std::uint64_t first_block_ = 0, offset_bytes_ = 0;
};

std::uint32_t computed(const std::string& file, const MetadataBlock& block) {
  std::string content = file.substr(block.first, block.bytes);
  const std::size_t at = block.checksum - block.first;
  if (at + 4 == block.bytes) {
    content.resize(at);
  } else {
    std::memset(content.data() + at, 0, 4);
  }
  return lookup3(std::as_bytes(std::span(content)));
}

}  // namespace

std::vector<MetadataBlock> metadata_blocks(const std::string& file) {
  return Finder(file).find();
}

bool matches(const std::string& file, const MetadataBlock& block) {
  std::uint32_t stored = 0;
  std::memcpy(&stored, file.data() + block.checksum, 4);
  return stored == computed(file, block);
}

void repair(std::string& file, const MetadataBlock& block) {
  const std::uint32_t checksum = computed(file, block);
  std::memcpy(file.data() + block.checksum, &checksum, 4);
}

}  // namespace trireme::fuzz
