// SPDX-License-Identifier: Apache-2.0
// Indexes as bytes: little-endian numbers, lists and texts behind their lengths.
#include <cstring>
#include <type_traits>

#include "data/fields/storage/field_index.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t format_mark = 0x3258444e49544854;  // "THTINDX2": changes with the format

// Each value goes through one function of two directions, so that both agree.
class Writer {
 public:
  explicit Writer(std::string& to) : to_(to) {}

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number& value) {
    to_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(std::string& text) {
    count(text.size());
    to_.append(text);
  }
  template <typename Element>
  void operator()(std::vector<Element>& list);

 private:
  void count(std::uint64_t value) { (*this)(value); }
  std::string& to_;
};

class Parser {
 public:
  explicit Parser(std::string_view from) : from_(from) {}
  [[nodiscard]] bool at_end() const { return from_.empty(); }

  template <typename Number>
  requires std::is_arithmetic_v<Number>
  void operator()(Number& value) { std::memcpy(&value, take(sizeof(value)).data(), sizeof(value)); }
  void operator()(std::string& text) { text = take(count(1)); }
  template <typename Element>
  void operator()(std::vector<Element>& list);
  // How deep parts lie in parts.
  int depth = 0;

 private:
  std::string_view take(std::uint64_t bytes) {
    if (bytes > from_.size()) fail(ExitCode::data, "an index of HDF5 files ends early");
    const std::string_view taken = from_.substr(0, bytes);
    from_.remove_prefix(bytes);
    return taken;
  }
  // Of a list whose elements take so many bytes at least: what is left bounds what is allocated.
  std::uint64_t count(std::uint64_t least) {
    std::uint64_t value = 0;
    (*this)(value);
    if (value > from_.size() / least) fail(ExitCode::data, "an index of HDF5 files ends early");
    return value;
  }
  std::string_view from_;
};

template <typename Archive>
void transfer(Archive& archive, std::string& text) {
  archive(text);
}

template <typename Archive>
void transfer(Archive& archive, bool& value) {
  auto byte = static_cast<std::uint8_t>(value);
  archive(byte);
  value = byte != 0;
}

template <typename Archive>
void transfer(Archive& archive, ElementType& type) {
  auto kind = static_cast<std::uint8_t>(type.kind);
  archive(kind);
  type.kind = static_cast<ElementKind>(kind);
  archive(type.bytes);
  transfer(archive, type.big_endian);
}

template <typename Archive>
void transfer(Archive& archive, FilterStep& step) {
  archive(step.id);
  archive(step.name);
  archive(step.values);
}

template <typename Archive>
void transfer(Archive& archive, StoredChunk& chunk) {
  archive(chunk.offset);
  archive(chunk.bytes);
  archive(chunk.skipped);
}

template <typename Archive>
void transfer(Archive& archive, StoredPart& part);

template <typename Archive>
void transfer(Archive& archive, StoredField& field) {
  archive(field.name);
  transfer(archive, field.type);
  archive(field.extents);
  archive(field.chunk_extents);
  archive(field.chunks);
  archive(field.filters);
  archive(field.fill);
  archive(field.content);
  archive(field.names);
  archive(field.file);
  archive(field.file_bytes);
  archive(field.parts);
}

template <typename Archive>
void transfer(Archive& archive, StoredPart& part) {
  archive(part.start);
  archive(part.count);
  archive(part.from);
  transfer(archive, part.field);
}

template <typename Archive>
void transfer(Archive& archive, StoredUnit& unit) {
  archive(unit.group);
  archive(unit.fields);
}

template <typename Archive>
void transfer(Archive& archive, FileIndex& index) {
  archive(index.path);
  archive(index.state.size);
  archive(index.state.modified);
  archive(index.digest);
  archive(index.units);
  archive(index.notes);
}

template <typename Element>
constexpr bool is_plain = std::is_same_v<Element, std::byte> || std::is_arithmetic_v<Element>;

template <typename Element>
void Writer::operator()(std::vector<Element>& list) {
  count(list.size());
  if constexpr (is_plain<Element>) {
    to_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(Element));
  } else {
    for (Element& element : list)
      transfer(*this, element);
  }
}

template <typename Element>
void Parser::operator()(std::vector<Element>& list) {
  constexpr int deepest = 16;
  if constexpr (is_plain<Element>) {
    list.resize(count(sizeof(Element)));
    const std::string_view bytes = take(list.size() * sizeof(Element));
    if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  } else {
    if (++depth > deepest) fail(ExitCode::data, "an index of HDF5 files is too deep");
    // The smallest of these elements, a chunk, takes 20 bytes; a text that of its length.
    constexpr std::uint64_t least = std::is_same_v<Element, std::string> ? 8 : 20;
    const std::uint64_t elements = count(least);
    for (std::uint64_t i = 0; i < elements; ++i)
      transfer(*this, list.emplace_back());
    --depth;
  }
}

}  // namespace

void append_index(std::string& to, const FileIndex& index) {
  Writer writer(to);
  std::uint64_t mark = format_mark;
  writer(mark);
  FileIndex copy = index;
  transfer(writer, copy);
}

std::vector<FileIndex> parse_indexes(std::string_view bytes) {
  std::vector<FileIndex> indexes;
  Parser parser(bytes);
  while (!parser.at_end()) {
    std::uint64_t mark = 0;
    parser(mark);
    if (mark != format_mark)
      fail(ExitCode::data, "not an index of HDF5 files, or one of another version");
    transfer(parser, indexes.emplace_back());
    check_index(indexes.back());
  }
  return indexes;
}

}  // namespace trireme
