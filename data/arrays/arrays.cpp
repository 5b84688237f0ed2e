// SPDX-License-Identifier: Apache-2.0
#include "data/arrays/arrays.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "data/fields/storage/inflate.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view npy_mark = "\x93NUMPY", zip_mark = "PK\x03\x04";
constexpr std::string_view ending = ".npy";

// An .npy file, alone or as a member of an archive.
struct ArrayBytes {
  const FileDescriptor& file;
  const std::string& path;
  ZipMember member{};                 // all of the file if it is alone
  std::vector<std::byte> inflated{};  // of a deflated member

  [[nodiscard]] std::uint64_t size() const { return member.unpacked; }
  void read(std::uint64_t at, std::span<std::byte> to) const {
    if (at > size() || to.size() > size() - at)
      fail(ExitCode::data, "{}: {}: is truncated ({} bytes); copy or write it again", path,
           member.name, size());
    if (!member.deflated) return read_exactly(file, path, member.offset + at, to, ExitCode::data);
    std::memcpy(to.data(), inflated.data() + at, to.size());
  }
};

// The header: a literal of Python with three keys.
struct ArrayHeader {
  std::string type{};
  std::vector<std::uint64_t> extents{};
  std::uint64_t bytes = 0;  // until the numbers begin
};

class ArrayScan {
 public:
  ArrayScan(const ArrayBytes& bytes, std::string name, bool bfloat16)
      : bytes_(bytes), bfloat16_(bfloat16) {
    field_.name = std::move(name);
  }

  StoredField run() {
    const ArrayHeader header = read_header();
    field_.extents = header.extents;
    if (header.extents.size() > most_axes) refuse("has more than 8 axes");
    const char kind = header.type.size() < 2 ? '?' : header.type[1];
    const std::uint64_t count = number_behind(header.type);
    if (kind == 'U' || kind == 'S') {
      read_texts(header, kind == 'U' ? 4 : 1, count);
    } else {
      take_type(header.type, kind, count);
      take_place(header);
    }
    return field_;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ExitCode::data, "{}: {}: {}", bytes_.path, field_.name,
         fmt::format(format, std::forward<Args>(args)...));
  }

  ArrayHeader read_header() const {
    constexpr std::uint64_t longest = 1 << 16;
    std::string first(10, '\0');
    bytes_.read(0, std::as_writable_bytes(std::span(first)));
    if (!first.starts_with(npy_mark)) refuse("is not an array of NumPy");
    if (first[6] < 1 || first[6] > 3 || first[7] != 0)
      refuse("has version {}.{} of the format; known are 1.0 to 3.0", int{first[6]}, int{first[7]});
    std::uint64_t length = 0;
    const std::uint64_t begin = first[6] >= 2 ? 12 : 10;
    bytes_.read(8, std::as_writable_bytes(std::span(&length, 1)).first(begin - 8));
    if (length > longest) refuse("has a header of {} bytes; the file is damaged", length);
    std::string text(length, '\0');
    bytes_.read(begin, std::as_writable_bytes(std::span(text)));
    ArrayHeader header{.bytes = begin + length};
    if (read_literal(text, header))
      refuse("is in the order of Fortran; write it again as numpy.ascontiguousarray(x)");
    return header;
  }

  // A dictionary of Python with exactly three keys. Returns whether its order is Fortran's.
  [[nodiscard]] bool read_literal(std::string_view rest, ArrayHeader& header) const {
    int types = 0, orders = 0, shapes = 0;
    bool fortran = false;
    require(take(rest, "{"), "header");
    while (!take(rest, "}")) {
      if (take(rest, "'descr'") && take(rest, ":")) {
        header.type = quoted(rest);
        ++types;
      } else if (take(rest, "'fortran_order'") && take(rest, ":")) {
        fortran = take(rest, "True");
        require(fortran || take(rest, "False"), "order");
        ++orders;
      } else {
        require(take(rest, "'shape'") && take(rest, ":"), "header");
        header.extents = extents_of(rest);
        ++shapes;
      }
      require(take(rest, ",") || rest.starts_with('}'), "header");
    }
    static_cast<void>(take(rest, ""));
    require(rest.empty() && types == 1 && orders == 1 && shapes == 1, "header");
    return fortran && std::ranges::count_if(header.extents, [](auto n) { return n > 1; }) > 1;
  }

  void require(bool known, const char* what) const {
    if (!known) refuse("has an unknown {}; the file is damaged", what);
  }

  // Skips white space, then `word` if it is next.
  static bool take(std::string_view& rest, std::string_view word) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r\n"), rest.size()));
    const bool next = rest.starts_with(word);
    if (next) rest.remove_prefix(word.size());
    return next;
  }

  [[nodiscard]] std::string quoted(std::string_view& rest) const {
    if (take(rest, "[")) refuse("holds records of several members; save each by itself");
    require(take(rest, "'"), "type");
    const std::string text(rest.substr(0, rest.find('\'')));
    rest.remove_prefix(text.size());
    require(take(rest, "'"), "type");
    return text;
  }

  [[nodiscard]] std::vector<std::uint64_t> extents_of(std::string_view& rest) const {
    std::vector<std::uint64_t> extents;
    require(take(rest, "("), "shape");
    for (bool more = true; !take(rest, ")");) {
      std::uint64_t value = 0;
      const auto [past, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
      if (error == std::errc::result_out_of_range)
        refuse("has an extent that is too large; the file is damaged");
      const auto digits = static_cast<std::size_t>(past - rest.data());
      require(more && error == std::errc{} && (digits == 1 || rest[0] != '0'), "shape");
      rest.remove_prefix(digits);
      extents.push_back(value);
      static_cast<void>(take(rest, "L"));  // of Python 2
      more = take(rest, ",");
      require(more || (extents.size() > 1 && rest.starts_with(')')), "shape");
    }
    return extents;
  }

  // 4 of "<f4"; 0 if there is none.
  [[nodiscard]] std::uint64_t number_behind(std::string_view type) const {
    std::uint64_t value = 0;
    require(!type.empty() && std::string_view("<>|=").find(type[0]) != std::string_view::npos,
            "type");
    const std::string_view digits = type.substr(std::min<std::size_t>(2, type.size()));
    const auto end = digits.data() + digits.size();
    require(std::from_chars(digits.data(), end, value).ptr == end, "type");
    return value;
  }

  void take_type(const std::string& type, char kind, std::uint64_t bytes) {
    field_.type.bytes = static_cast<std::uint8_t>(std::min<std::uint64_t>(bytes, 255));
    field_.type.big_endian = type[0] == '>';
    field_.type.kind = kind == 'f'   ? ElementKind::floating
                       : kind == 'i' ? ElementKind::signed_integer
                                     : ElementKind::unsigned_integer;
    if (kind == 'u' && bytes == 2 && bfloat16_) field_.type.kind = ElementKind::brain_float;
    if (kind == 'O')
      refuse(
          "holds Python objects, whose loading can run code; save it as numbers or texts of a "
          "fixed length (astype)");
    const bool known = std::string_view("fiub").find(kind) != std::string_view::npos;
    if (!known || !field_.type.is_valid() || (kind == 'b' && bytes != 1))
      refuse("has numbers of the type {}; write it again as float32 or int64 (astype)", type);
  }

  // Bytes of the array, which the file must hold.
  [[nodiscard]] std::uint64_t bytes_of(const ArrayHeader& header, std::uint64_t element) const {
    std::uint64_t bytes = element;
    for (const std::uint64_t extent : header.extents) {
      if (extent != 0 && bytes > bytes_.size() / extent)
        refuse("needs more bytes than the {} that there are; the file is truncated", bytes_.size());
      bytes *= extent;
    }
    if (bytes > bytes_.size() - header.bytes)
      refuse("needs {} bytes, but {} are there; the file is truncated", bytes,
             bytes_.size() - header.bytes);
    return bytes;
  }

  void take_place(const ArrayHeader& header) {
    constexpr std::uint64_t most_inside = 64;
    const std::uint64_t bytes = bytes_of(header, field_.type.bytes);
    if (bytes <= most_inside) {
      field_.content.resize(bytes);
      return bytes_.read(header.bytes, field_.content);
    }
    const ZipMember& member = bytes_.member;
    field_.chunk_extents = field_.extents;
    if (member.deflated) {
      field_.filters = {{skip_filter, "", {static_cast<std::uint32_t>(header.bytes)}},
                        {raw_deflate_filter, "", {}}};
      field_.chunks = {{.offset = member.offset, .bytes = member.bytes}};
      // The member may be longer than its array.
      if (member.unpacked != header.bytes + bytes) refuse("is followed by other bytes");
    } else {
      field_.chunks = {{.offset = member.offset + header.bytes, .bytes = bytes}};
    }
  }

  // Of `width` bytes a letter, `length` letters each, padded with zeros.
  void read_texts(const ArrayHeader& header, std::uint64_t width, std::uint64_t length) {
    constexpr std::uint64_t most_texts = std::uint64_t{1} << 22, most_letters = 4096;
    const bool native = width == 1 || header.type[0] == '<';
    if (length == 0 || length > most_letters || !native)
      refuse(
          "holds texts of the type {}; write them in this machine's byte order with 1 to 4096 "
          "letters",
          header.type);
    std::vector<std::byte> stored(bytes_of(header, width * length));
    bytes_.read(header.bytes, stored);
    const std::uint64_t count = stored.size() / (width * length);
    if (count > most_texts) refuse("holds more than 2^22 texts");
    std::vector<std::string> texts(count);
    for (std::uint64_t i = 0; i < count * length; ++i) {
      std::uint32_t letter = 0;
      std::memcpy(&letter, stored.data() + i * width, width);
      if (letter != 0) add_letter(texts[i / length], letter, width == 1);
    }
    set_texts(field_, texts);
  }

  // In UTF-8.
  static void add_letter(std::string& to, std::uint32_t letter, bool byte) {
    const auto add = [&](std::uint32_t bits) { to += static_cast<char>(bits); };
    if (byte || letter < 0x80) return add(letter);
    if (letter < 0x800) return add(0xc0 | letter >> 6), add(0x80 | (letter & 0x3f));
    if (letter < 0x10000) {
      add(0xe0 | letter >> 12);
    } else {
      add(0xf0 | (letter >> 18 & 7));
      add(0x80 | (letter >> 12 & 0x3f));
    }
    add(0x80 | (letter >> 6 & 0x3f));
    add(0x80 | (letter & 0x3f));
  }

  const ArrayBytes& bytes_;
  bool bfloat16_;
  StoredField field_;
};

std::uint32_t checksum_of_member(const ArrayBytes& array) {
  std::vector<std::byte> block(std::min<std::uint64_t>(array.size(), 1 << 20));
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < array.size(); at += block.size()) {
    const auto part =
        std::span(block).first(std::min<std::uint64_t>(block.size(), array.size() - at));
    array.read(at, part);
    sum = crc32_of(sum, part);
  }
  return sum;
}

// A member's array. Raises ExitCode::data.
StoredField scan_member(const FileDescriptor& file, const std::string& path,
                        const ZipMember& member, const std::string& name, bool bfloat16) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  ArrayBytes bytes{file, path, member};
  if (!member.problem.empty()) fail(ExitCode::data, "{}: {}: {}", path, name, member.problem);
  if (member.deflated) {
    if (member.unpacked > most || member.bytes > most)
      fail(ExitCode::data,
           "{}: {}: is compressed as a whole and larger than 1 GiB; write it with numpy.savez or "
           "to HDF5 in chunks",
           path, name);
    std::vector<std::byte> stored(member.bytes);
    read_exactly(file, path, member.offset, stored, ExitCode::data);
    bytes.inflated.resize(member.unpacked);
    if (Inflater().raw(stored, bytes.inflated) != member.unpacked)
      fail(ExitCode::data, "{}: {}: the member is damaged", path, name);
  }
  if (member.checksum && checksum_of_member(bytes) != *member.checksum)
    fail(ExitCode::data,
         "{}: {}: its bytes do not have the CRC-32 that the archive records: the file is damaged; "
         "copy it again",
         path, name);
  return ArrayScan(bytes, name, bfloat16).run();
}

// The arrays of a file, by name.
std::vector<std::pair<std::string, ZipMember>> arrays_of(const FileDescriptor& file,
                                                         const std::string& path,
                                                         std::uint64_t size,
                                                         std::vector<std::string>& notes) {
  std::string mark(npy_mark.size(), '\0');
  read_exactly(file, path, 0, std::as_writable_bytes(std::span(mark)), ExitCode::data);
  if (mark == npy_mark) return {{"array", {.name = "array", .bytes = size, .unpacked = size}}};
  std::vector<std::pair<std::string, ZipMember>> arrays;
  for (ZipMember& member : zip_members(file, path, size)) {
    std::string name = member.name;
    if (name.ends_with(ending)) {
      name.resize(name.size() - ending.size());
      arrays.emplace_back(name, std::move(member));
    } else {
      notes.push_back(fmt::format("{}: {}: is no array (.npy)", path, name));
    }
  }
  if (arrays.empty())
    fail(ExitCode::data, "{}: is a ZIP archive without arrays of NumPy; unpack it (unzip)", path);
  return arrays;
}

}  // namespace

bool is_array_file(const std::string& path) {
  const FileDescriptor file = open_regular_file(path, ExitCode::data);
  std::string mark(npy_mark.size(), '\0');
  if (regular_file_size(file, path, ExitCode::data) < mark.size()) return false;
  read_exactly(file, path, 0, std::as_writable_bytes(std::span(mark)), ExitCode::data);
  return mark == npy_mark || mark.starts_with(zip_mark);
}

FileIndex scan_arrays(const std::string& path, const ScanRequest& request) {
  FileIndex index{.path = path, .state = state_of_file(path)};
  index.digest = digest_of_ends(path, index.state.size);
  if (!request.groups.empty())
    fail(ExitCode::data, "{}: arrays of NumPy have no groups; use data.samples: axis or file",
         path);
  const FileDescriptor file = open_regular_file(path, ExitCode::data);
  const auto arrays = arrays_of(file, path, index.state.size, index.notes);
  StoredUnit& unit = index.units.emplace_back();
  const auto add = [&](const auto& array) {
    unit.fields.push_back(scan_member(file, path, array.second, array.first, request.bfloat16));
  };
  for (const std::string& name : request.fields) {
    const auto found = std::ranges::find(arrays, name, &std::pair<std::string, ZipMember>::first);
    if (found == arrays.end())
      fail(ExitCode::data, "{}: holds no {}; the first of its {} arrays is {}", path, name,
           arrays.size(), arrays.front().first);
    add(*found);
  }
  if (!request.fields.empty()) return index;
  for (const auto& array : arrays) {
    try {
      add(array);
    } catch (const Error& error) {
      index.notes.emplace_back(error.what());
    }
  }
  return index;
}

}  // namespace trireme
