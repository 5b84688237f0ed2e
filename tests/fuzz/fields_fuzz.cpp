// SPDX-License-Identifier: Apache-2.0
// Untrusted inputs of reading HDF5 files: an index, from the child or a stored file, and the bytes
// of chunks.
#include <algorithm>
#include <cstdlib>

#include "data/fields/storage/field_reader.h"
#include "data/fields/storage/filters.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

constexpr std::uint64_t most_bytes = 1 << 20;  // limit per field

// Filter `number` of those below, with parameters from `value`: mostly the element size; for szip a
// byte order, a width, and blocks in lines that they fill or not.
FilterStep filter_step(int number, std::uint32_t value) {
  constexpr std::uint32_t szip = 4;
  constexpr std::uint32_t ids[] = {1, 2, 3, 32000, 32001, 32004, 32015, szip};
  const std::uint32_t id = ids[number % 8];
  if (id != szip) return {.id = id, .values = {value}};
  const std::uint32_t block = 4U << (value >> 2 & 3U), blocks = value >> 6;
  return {.id = id,
          .values = {value & 48U, block, 8U << (value & 3U), block + blocks * (block + 1)}};
}

// A first byte chooses filters, a second their parameters, two more the size of the chunk.
void decode_chunk(std::string_view text) {
  constexpr std::size_t head = 4;
  if (text.size() < head) return;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  std::vector<FilterStep> filters{filter_step(byte(0), byte(1))};
  if (byte(0) >= 64) filters.push_back(filter_step(byte(0) / 8, byte(1)));
  std::vector<std::byte> chunk(static_cast<std::size_t>(byte(2) << 8 | byte(3)));
  static ChunkDecoder decoder;
  fuzz::accepts(ExitCode::data, [&] {
    decoder.decode(filters, 0, std::as_bytes(std::span(text.substr(head))), chunk);
  });
}

// Moves all parts into `file`.
void move_to(StoredField& field, const std::string& file, std::uint64_t bytes) {
  field.file = file;
  field.file_bytes = bytes;
  for (StoredPart& part : field.parts)
    move_to(part.field, file, bytes);
}

bool is_small(const StoredField& field) {
  if (field.elements() * field.type.bytes > most_bytes || field.chunk_bytes() > most_bytes)
    return false;
  return std::ranges::all_of(field.parts,
                             [](const StoredPart& part) { return is_small(part.field); });
}

void read_index(std::string_view text, const std::string& file) {
  for (FileIndex& index : parse_indexes(text)) {
    for (StoredUnit& unit : index.units) {
      for (StoredField& field : unit.fields) {
        if (!is_small(field) || field.elements() == 0) continue;
        move_to(field, file, text.size());
        Box box;
        std::ranges::copy(field.extents, box.count.begin());
        std::vector<std::byte> values(static_cast<std::size_t>(field.elements()) *
                                      field.type.bytes);
        const FieldReader reader(most_bytes);
        fuzz::accepts(ExitCode::data, [&] { reader.read(index, field, box, values); });
        std::vector<float> floats(static_cast<std::size_t>(field.elements()));
        to_floats(field.type, field.packing, values.data(), floats);
        for (const float number : floats) {
          if (field.is_text() && number >= static_cast<float>(field.names.size())) std::abort();
        }
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  const std::string_view text = fuzz::text_of(data, size);
  decode_chunk(text);
  file.set(text);
  fuzz::accepts(ExitCode::data, [&] { read_index(text, file.path()); });
  return 0;
}
