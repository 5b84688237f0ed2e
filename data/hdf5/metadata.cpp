// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/metadata.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/hdf5/shard_parts.h"

namespace trireme::hdf5 {
namespace {

// No block of a shard is larger: long class lists are the largest.
constexpr std::uint64_t largest_block = std::uint64_t{32} << 20;
constexpr std::uint64_t largest_header = std::uint64_t{1} << 20;
constexpr std::size_t max_messages = 4096;
constexpr std::size_t max_chunks = 64;

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

// One block of an object header: its messages, and where others of it lie.
class HeaderChunks {
 public:
  HeaderChunks(const InputFile& file, std::uint64_t address) : file_(file) {
    first(address);
    for (std::size_t i = 0; i < more_.size(); ++i) {
      if (i >= max_chunks) damaged(file.path(), "an object header has too many blocks");
      next(more_[i].first, more_[i].second);
    }
  }
  [[nodiscard]] std::vector<Message> take() { return std::move(messages_); }

 private:
  void first(std::uint64_t address) {
    constexpr std::uint64_t longest_prefix = 34;
    if (address >= file_.size()) damaged(file_.path(), "an object lies beyond the end");
    const Bytes start =
        read_bytes(file_, address, std::min(longest_prefix, file_.size() - address));
    Cursor prefix(file_.path(), start);
    prefix.signature("OHDR");
    if (prefix.byte() != 2) damaged(file_.path(), "an object header is not of version 2");
    const std::uint8_t flags = prefix.byte();
    ordered_ = (flags & 4) != 0;
    prefix.skip((flags & 0x20) != 0 ? 16 : 0);  // times
    prefix.skip((flags & 0x10) != 0 ? 4 : 0);   // numbers of attributes
    const std::uint64_t bytes = prefix.number(std::size_t{1} << (flags & 3));
    if (bytes > largest_header) damaged(file_.path(), "an object header is too large");
    const std::size_t head = start.size() - prefix.left();
    const Bytes block = read_block(file_, address, head + bytes + 4);
    collect(std::span(block).subspan(head, bytes));
  }
  void next(std::uint64_t address, std::uint64_t bytes) {
    if (bytes < 8 || bytes > largest_header)
      damaged(file_.path(), "a block of an object header has no room");
    const Bytes block = read_block(file_, address, bytes);
    Cursor(file_.path(), block).signature("OCHK");
    collect(std::span(block).subspan(4, bytes - 8));
  }
  void collect(std::span<const std::byte> bytes) {
    constexpr std::uint8_t nothing = 0, continuation = 0x10, shared = 2;
    Cursor cursor(file_.path(), bytes);
    while (cursor.left() >= (ordered_ ? 6U : 4U)) {
      const std::uint8_t type = cursor.byte();
      const std::uint64_t size = cursor.number(2);
      const std::uint8_t flags = cursor.byte();
      cursor.skip(ordered_ ? 2 : 0);
      const auto data = cursor.take(size);
      if (type == nothing) continue;
      if ((flags & shared) != 0) damaged(file_.path(), "a message is stored elsewhere");
      if (type == continuation) {
        Cursor where(file_.path(), data);
        const std::uint64_t address = where.number(8);
        more_.emplace_back(address, where.number(8));
      } else {
        messages_.push_back({type, {data.begin(), data.end()}});
        if (messages_.size() > max_messages) damaged(file_.path(), "too many messages");
      }
    }
  }

  const InputFile& file_;
  bool ordered_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> more_;
  std::vector<Message> messages_;
};

}  // namespace

void damaged(const std::string& path, std::string_view what) {
  refuse(path, fmt::format("is damaged or truncated (HDF5 metadata: {})", what));
}

std::uint64_t Cursor::number(std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, take(bytes).data(), bytes);  // little-endian, as this machine is
  return value;
}

std::span<const std::byte> Cursor::take(std::uint64_t bytes) {
  if (bytes > left_.size()) damaged(path_, "a block ends early");
  const auto taken = left_.first(bytes);
  left_ = left_.subspan(bytes);
  return taken;
}

std::string Cursor::text(std::uint64_t bytes) {
  const auto taken = take(bytes);
  std::string value(reinterpret_cast<const char*>(taken.data()), taken.size());
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

void Cursor::signature(const char* four) {
  if (std::memcmp(take(4).data(), four, 4) != 0)
    damaged(path_, fmt::format("no {} where one should be", four));
}

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

Bytes read_bytes(const InputFile& file, std::uint64_t address, std::uint64_t bytes) {
  std::uint64_t end = 0;
  if (bytes > largest_block || __builtin_add_overflow(address, bytes, &end) || end > file.size())
    damaged(file.path(), "a block lies beyond the end");
  Bytes block(bytes);
  file.read(address, block);
  return block;
}

Bytes read_block(const InputFile& file, std::uint64_t address, std::uint64_t bytes) {
  Bytes block = read_bytes(file, address, bytes);
  if (bytes < 4) damaged(file.path(), "a block without a checksum");
  const auto content = std::span(block).first(bytes - 4);
  if (Cursor(file.path(), std::span(block).last(4)).number(4) != lookup3(content))
    damaged(file.path(), fmt::format("the block at byte {} does not match its checksum", address));
  return block;
}

std::vector<Message> read_messages(const InputFile& file, std::uint64_t address) {
  return HeaderChunks(file, address).take();
}

}  // namespace trireme::hdf5
