// SPDX-License-Identifier: Apache-2.0
#include "data/images/tar_members.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace trireme {
namespace {

constexpr std::uint64_t block_bytes = 512;
// Small members (labels) and the headers between them are read at once.
constexpr std::uint64_t window_bytes = 16 * 1024;
constexpr std::uint64_t most_extra_bytes = 1 << 20;
constexpr std::uint64_t most_name_bytes = 4096;

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

std::string_view text_of(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all.substr(0, all.find('\0'));
}

// Octal digits, or GNU's big-endian numbers, marked by the top bit.
std::optional<std::uint64_t> number_of(std::span<const std::byte> field) {
  std::uint64_t value = 0;
  if (field.front() == std::byte{0x80}) {
    for (const std::byte byte : field.subspan(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<std::uint64_t>(byte);
    }
    return value;
  }
  std::string_view digits = text_of(field);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (status != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// "" if it is none of these.
std::string_view compressor_of(std::span<const std::byte> begin) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> known{
      {{"\x1f\x8b", "gzip"},
       {"BZh", "bzip2"},
       {"\xfd\x37zXZ", "xz"},
       {"\x28\xb5\x2f\xfd", "zstd"}}};
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()), begin.size());
  const auto found = std::ranges::find_if(
      known, [&](const auto& compressor) { return bytes.starts_with(compressor.first); });
  return found == known.end() ? "" : found->second;
}

std::string_view name_of_type(char type) {
  switch (type) {
    case '1':
      return "a hard link";
    case '2':
      return "a symbolic link";
    case '3':
    case '4':
      return "a device";
    case '6':
      return "a named pipe";
    case 'S':
      return "a sparse file";
    default:
      return "not a regular file";
  }
}

}  // namespace

std::string shown_name(std::string_view name) {
  std::string shown;
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (code < 0x20 || code == 0x7f) {
      shown += fmt::format("\\x{:02x}", code);
    } else {
      shown += letter;
    }
  }
  return shown;
}

struct TarMembers::Header {
  std::span<const std::byte> block;

  [[nodiscard]] std::span<const std::byte> field(std::size_t at, std::size_t bytes) const {
    return block.subspan(at, bytes);
  }
  [[nodiscard]] bool has_magic() const {
    const std::string_view magic(reinterpret_cast<const char*>(block.data()) + 257, 8);
    return magic == std::string_view("ustar\00000", 8) || magic == std::string_view("ustar  ", 8);
  }
  // The sum of all bytes, with its own field as spaces.
  [[nodiscard]] bool has_right_sum() const {
    constexpr std::size_t place = 148, bytes = 8;
    std::uint64_t sum = bytes * ' ';
    for (std::size_t i = 0; i < block.size(); ++i)
      sum += i < place || i >= place + bytes ? static_cast<std::uint64_t>(block[i]) : 0;
    return number_of(field(place, bytes)) == sum;
  }
  [[nodiscard]] char type() const {
    const char type = static_cast<char>(block[156]);
    return type == '\0' || type == '7' ? '0' : type;
  }
  [[nodiscard]] std::optional<std::uint64_t> size() const { return number_of(field(124, 12)); }
  [[nodiscard]] std::string name() const {
    const std::string own(text_of(field(0, 100)));
    const bool posix = block[263] == std::byte{'0'};
    const std::string prefix(posix ? text_of(field(345, 155)) : "");
    return prefix.empty() ? own : prefix + "/" + own;
  }
};

TarMembers::TarMembers(const FileDescriptor& file, std::string path, std::uint64_t bytes)
    : file_(file), path_(std::move(path)), bytes_(bytes) {}

void TarMembers::refuse(std::uint64_t at, const std::string& reason) const {
  throw BrokenTar(fmt::format("{}: at byte {}: {}", path_, at, reason));
}

std::span<const std::byte> TarMembers::block(std::uint64_t at) {
  if (at > bytes_ || bytes_ - at < block_bytes) {
    refuse(at, fmt::format("the archive ends after {} bytes without its end mark: it is truncated",
                           bytes_));
  }
  const bool there = at >= window_at_ && at - window_at_ + block_bytes <= window_.size();
  if (!there) {
    window_.resize(std::min(window_bytes, bytes_ - at));
    window_at_ = at;
    read_exactly(file_, path_, at, window_, ExitCode::data);
  }
  return std::span(window_).subspan(at - window_at_, block_bytes);
}

std::string TarMembers::content(const TarMember& member, std::uint64_t limit) {
  if (member.bytes > limit) {
    fail(ExitCode::data, "{}: {}: has {} bytes, more than the {} that such a member may have",
         path_, shown_name(member.name), member.bytes, limit);
  }
  std::string text(member.bytes, '\0');
  const std::span bytes = std::as_writable_bytes(std::span(text));
  if (member.offset >= window_at_ && member.offset - window_at_ + text.size() <= window_.size()) {
    std::memcpy(text.data(), window_.data() + (member.offset - window_at_), text.size());
  } else {
    read_exactly(file_, path_, member.offset, bytes, ExitCode::data);
  }
  digest_.update(bytes);
  return text;
}

std::uint64_t TarMembers::end_of(std::uint64_t offset, std::uint64_t bytes,
                                 const std::string& name) const {
  const std::uint64_t left = bytes_ - offset;
  if (bytes > left) {
    refuse(header_,
           fmt::format(
               "{}: its {} bytes go past the end of the archive, which has {}: it is truncated",
               shown_name(name), bytes, bytes_));
  }
  const std::uint64_t padded = (bytes + block_bytes - 1) / block_bytes * block_bytes;
  return offset + std::min(padded, left);
}

void TarMembers::set_record(std::string_view key, std::string_view value, bool global,
                            Extra& extra) const {
  const bool size = key == "size", path = key == "path";
  if (key.starts_with("GNU.sparse.")) refuse(header_, "a sparse file; unpack and pack it again");
  if (!size && !path) return;
  if (global) refuse(header_, fmt::format("a global header that sets {}", key));
  if (path) {
    if (value.empty() || value.size() > most_name_bytes || value.find('\0') != value.npos)
      refuse(header_, "a name that is empty, too long or has a zero byte");
    extra.path = value;
    return;
  }
  std::uint64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc() || end != value.data() + value.size())
    refuse(header_, fmt::format("a size of '{}'", shown_name(value)));
  extra.size = number;
}

// "LENGTH KEY=VALUE\n", where the length is that of the whole record.
void TarMembers::read_records(const std::string& records, bool global, Extra& extra) const {
  for (std::string_view rest = records; !rest.empty();) {
    std::size_t length = 0;
    const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    const bool whole = status == std::errc() && length > digits + 2 && length <= rest.size() &&
                       rest[digits] == ' ' && rest[length - 1] == '\n';
    const std::string_view record =
        whole ? rest.substr(digits + 1, length - digits - 2) : std::string_view();
    const std::size_t equals = record.find('=');
    if (equals == record.npos) refuse(header_, "damaged records of a pax header");
    set_record(record.substr(0, equals), record.substr(equals + 1), global, extra);
    rest.remove_prefix(length);
  }
}

// An extra header, for the next member or with 'g' for all following ones.
void TarMembers::read_extra(const Header& header, Extra& extra) {
  const char type = header.type();
  const auto bytes = header.size();
  if (!bytes) refuse(header_, "a damaged size");
  const std::string name = header.name();
  const TarMember member{name, at_, *bytes};
  const std::uint64_t end = end_of(at_, *bytes, name);
  if (*bytes > most_extra_bytes)
    refuse(header_, fmt::format("a header of {} bytes for the next member", *bytes));
  const std::string text = content(member, most_extra_bytes);
  if (type == 'x' || type == 'g') {
    read_records(text, type == 'g', extra);
  } else if (type == 'L') {
    extra.long_name = text.substr(0, text.find('\0'));
    if (extra.long_name->size() > most_name_bytes) refuse(header_, "a name that is too long");
  }
  at_ = end;
}

// Only padding to a whole record may follow, no second archive.
void TarMembers::check_rest(std::uint64_t at) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30, piece = 1 << 16;
  if (bytes_ - at > most) refuse(at, fmt::format("{} bytes follow the end mark", bytes_ - at));
  while (at < bytes_) {
    window_.resize(std::min(piece, bytes_ - at));
    read_exactly(file_, path_, at, window_, ExitCode::data);
    if (!is_zero(window_)) {
      refuse(at,
             "more data follows the end mark: joined archives would lose all but the first; pack "
             "them as one");
    }
    at += window_.size();
  }
  window_.clear();
}

void TarMembers::check(const Header& header) const {
  if (!header.has_right_sum()) {
    const std::string_view compressor = header_ == 0 ? compressor_of(header.block) : "";
    if (!compressor.empty())
      refuse(0, fmt::format(
                    "is compressed by {}, but images are read in place: unpack it to a plain .tar",
                    compressor));
    refuse(header_, header_ == 0
                        ? "not a tar archive: the checksum of the first header does not match"
                        : "a damaged header: its checksum does not match");
  }
  if (!header.has_magic()) refuse(header_, "a header that is neither ustar, pax nor GNU");
}

std::optional<TarMember> TarMembers::next() {
  Extra extra;
  bool announced = false;  // a member must follow
  while (true) {
    header_ = at_;
    const Header header{block(at_)};
    if (is_zero(header.block)) {
      if (announced) refuse(header_, "a header announces a member that is missing");
      check_rest(at_ + block_bytes);
      return std::nullopt;
    }
    check(header);
    digest_.update(header.block);
    const char type = header.type();
    at_ += block_bytes;
    if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
      announced = announced || type != 'g';
      read_extra(header, extra);
      continue;
    }
    TarMember member{extra.path        ? *extra.path
                     : extra.long_name ? *extra.long_name
                                       : header.name(),
                     at_, 0};
    if (type == '5' || (type == '0' && member.name.ends_with('/'))) {
      extra = {};
      announced = false;
      continue;
    }
    if (type != '0') {
      refuse(header_, fmt::format("{}: is {}; only regular files can be read",
                                  shown_name(member.name), name_of_type(type)));
    }
    const auto bytes = extra.size ? extra.size : header.size();
    if (!bytes) refuse(header_, fmt::format("{}: a damaged size", shown_name(member.name)));
    member.bytes = *bytes;
    at_ = end_of(member.offset, *bytes, member.name);
    return member;
  }
}

}  // namespace trireme
