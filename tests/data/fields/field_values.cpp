// SPDX-License-Identifier: Apache-2.0
// field_values FILE FIELD...: prints the values of an HDF5 file's data sets as float32, one data
// set after another; for a refused one "FIELD: why" on standard error. For
// tests/checks/check_fields.py.
#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "data/fields/storage/field_reader.h"
#include "data/hdf5/child.h"

namespace trireme {
namespace {

std::vector<float> values_of(const FileIndex& index, const StoredField& field) {
  const FieldReader reader(0);
  Box box;
  std::ranges::copy(field.extents, box.count.begin());
  const auto elements = static_cast<std::size_t>(field.elements());
  std::vector<std::byte> stored(elements * field.type.bytes);
  if (elements == 0) return {};
  reader.read(index, field, box, stored);
  // Reads the same values row by row in other ways: through the cache, and in parts.
  const std::size_t rows = field.extents.empty() ? 1 : box.count[0];
  std::vector<std::byte> row(stored.size() / rows);
  for (box.count[0] = 1; box.start[0] < rows && !field.extents.empty(); ++box.start[0]) {
    reader.read(index, field, box, row);
    if (!std::ranges::equal(row, std::span(stored).subspan(box.start[0] * row.size(), row.size())))
      throw std::runtime_error("another row than in the whole");
  }
  std::vector<float> values(elements);
  to_floats(field.type, field.packing, stored.data(), values);
  return values;
}

int run(const std::string& path, const std::string& name) {
  try {
    const auto indexes = scan_in_children(std::vector{path}, {.fields = {name}}, 1);
    const StoredField& field = indexes.at(0).units.at(0).fields.at(0);
    const std::vector<float> values = values_of(indexes[0], field);
    std::fwrite(values.data(), sizeof(float), values.size(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
    return 1;
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);
  int refused = 0;
  for (int i = 2; i < argc; ++i)
    refused += trireme::run(argv[1], argv[i]);
  return refused == 0 ? 0 : 1;
}
