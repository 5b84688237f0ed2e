// SPDX-License-Identifier: Apache-2.0
// Serialised indexes: little-endian numbers, and lists and texts with a length prefix.
#include "data/fields/storage/field_index.h"
#include "data/index_archive.h"

namespace trireme {

inline constexpr std::uint64_t field_index_mark =
    0x3358444e49544854;  // "THTINDX3": changes with the format and the way chunks are found

template <typename Archive>
void transfer(Archive& archive, ElementType& type) {
  auto kind = static_cast<std::uint8_t>(type.kind);
  archive(kind);
  type.kind = static_cast<ElementKind>(kind);
  archive(type.bytes);
  transfer(archive, type.big_endian);
}

template <typename Archive>
void transfer(Archive& archive, NumberPacking& packing) {
  archive(packing.missing);
  for (double* const number : {&packing.least, &packing.most, &packing.scale, &packing.offset})
    archive(*number);
  transfer(archive, packing.single_product);
  transfer(archive, packing.single_sum);
  archive(packing.unused);
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
  transfer(archive, field.packing);
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

void append_index(std::string& to, const FileIndex& index) {
  IndexWriter writer(to);
  std::uint64_t mark = field_index_mark;
  writer(mark);
  FileIndex copy = index;
  transfer(writer, copy);
}

std::vector<FileIndex> parse_indexes(std::string_view bytes) {
  std::vector<FileIndex> indexes;
  IndexParser parser(bytes, "an index of HDF5 files");
  while (!parser.at_end()) {
    std::uint64_t mark = 0;
    parser(mark);
    if (mark != field_index_mark)
      fail(ExitCode::data, "not an index of HDF5 files, or one of another version");
    transfer(parser, indexes.emplace_back());
    check_index(indexes.back());
  }
  return indexes;
}

}  // namespace trireme
