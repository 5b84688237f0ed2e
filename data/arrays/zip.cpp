// SPDX-License-Identifier: Apache-2.0
// The directory of a ZIP archive (APPNOTE 6.3), with ZIP64.
#include <algorithm>
#include <cstring>

#include "data/arrays/arrays.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t most_members = 65536;
constexpr std::uint32_t all_ones = 0xffffffffU;  // the number is in the ZIP64 part

class ZipReader {
 public:
  ZipReader(const FileDescriptor& file, const std::string& path, std::uint64_t size)
      : file_(file), path_(path), size_(size) {}

  std::vector<ZipMember> members() {
    find_directory();
    const std::string directory = text(start_, bytes_);
    std::vector<ZipMember> all;
    for (std::uint64_t at = 0; all.size() < count_;) {
      constexpr std::uint64_t fixed = 46;
      if (at + fixed > directory.size() || number(directory, at, 4) != 0x02014b50) damaged();
      const std::uint64_t name = number(directory, at + 28, 2),
                          extra = number(directory, at + 30, 2);
      const std::uint64_t end = at + fixed + name + extra + number(directory, at + 32, 2);
      if (end > directory.size()) damaged();
      all.push_back(member(directory.substr(at, end - at), name, extra));
      at = end;
    }
    return all;
  }

 private:
  [[noreturn]] void damaged() const {
    fail(ExitCode::data, "{}: the ZIP archive is truncated or damaged; copy it again", path_);
  }

  [[nodiscard]] std::string text(std::uint64_t at, std::uint64_t bytes) const {
    constexpr std::uint64_t most = std::uint64_t{1} << 28;
    if (at > size_ || bytes > size_ - at || bytes > most) damaged();
    std::string to(bytes, '\0');
    read_exactly(file_, path_, at, std::as_writable_bytes(std::span(to)), ExitCode::data);
    return to;
  }

  // Little-endian.
  [[nodiscard]] std::uint64_t number(std::string_view from, std::uint64_t at,
                                     std::size_t bytes) const {
    std::uint64_t value = 0;
    if (at > from.size() || bytes > from.size() - at) damaged();
    std::memcpy(&value, from.data() + at, bytes);
    return value;
  }

  // From the record at the end, before a comment.
  void find_directory() {
    constexpr std::uint64_t record = 22, comment = 65535, locator = 20;
    if (size_ < record) damaged();
    const std::uint64_t from = size_ - std::min(size_, record + comment + locator);
    const std::string tail = text(from, size_ - from);
    const std::size_t at = tail.rfind("PK\x05\x06", tail.size() - record);
    if (at == std::string::npos) damaged();
    count_ = number(tail, at + 10, 2);
    bytes_ = number(tail, at + 12, 4);
    start_ = number(tail, at + 16, 4);
    const bool large = at >= locator && number(tail, at - locator, 4) == 0x07064b50;
    if (large) {
      const std::string more = text(number(tail, at - locator + 8, 8), 56);
      if (number(more, 0, 4) != 0x06064b50) damaged();
      count_ = number(more, 32, 8);
      bytes_ = number(more, 40, 8);
      start_ = number(more, 48, 8);
    }
    if (count_ > most_members)
      fail(ExitCode::data, "{}: has more than {} members", path_, most_members);
  }

  [[nodiscard]] ZipMember member(std::string_view entry, std::uint64_t name,
                                 std::uint64_t extra) const {
    constexpr std::uint64_t fixed = 46, local_bytes = 30;
    ZipMember found{.name = std::string(entry.substr(fixed, name)),
                    .bytes = number(entry, 20, 4),
                    .unpacked = number(entry, 24, 4),
                    .checksum = static_cast<std::uint32_t>(number(entry, 16, 4))};
    std::uint64_t header = number(entry, 42, 4);
    take_large(entry.substr(fixed + name, extra), {&found.unpacked, &found.bytes, &header});
    const std::uint64_t method = number(entry, 10, 2);
    found.deflated = method == 8;
    if ((number(entry, 8, 2) & 1) != 0) found.problem = "is encrypted";
    if (method != 0 && method != 8)
      found.problem = fmt::format("is compressed by method {}; write it with numpy.savez", method);
    const std::string local = text(header, local_bytes);
    if (number(local, 0, 4) != 0x04034b50) damaged();
    found.offset = header + local_bytes + number(local, 26, 2) + number(local, 28, 2);
    if (found.offset > size_ || found.bytes > size_ - found.offset) damaged();
    if (!found.deflated && found.problem.empty() && found.bytes != found.unpacked) damaged();
    return found;
  }

  // Numbers of 64 bits replace those that are all ones, in this order.
  void take_large(std::string_view extra, std::initializer_list<std::uint64_t*> numbers) const {
    for (std::uint64_t at = 0; at + 4 <= extra.size();) {
      const std::uint64_t bytes = number(extra, at + 2, 2);
      std::uint64_t next = at + 4;
      for (std::uint64_t* const each : numbers) {
        if (number(extra, at, 2) != 1 || *each != all_ones) continue;
        *each = number(extra, next, 8);
        next += 8;
      }
      at += 4 + bytes;
    }
  }

  const FileDescriptor& file_;
  const std::string& path_;
  std::uint64_t size_, count_ = 0, bytes_ = 0, start_ = 0;
};

}  // namespace

std::vector<ZipMember> zip_members(const FileDescriptor& file, const std::string& path,
                                   std::uint64_t size) {
  return ZipReader(file, path, size).members();
}

}  // namespace trireme
