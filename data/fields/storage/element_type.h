// SPDX-License-Identifier: Apache-2.0
// Numbers as HDF5 files store them, and how they become ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trireme {

enum class ElementKind : std::uint8_t { floating, brain_float, signed_integer, unsigned_integer };

struct ElementType {
  ElementKind kind = ElementKind::floating;
  std::uint8_t bytes = 4;  // floats 2, 4 or 8; bfloat16 2; integers 1, 2, 4 or 8
  bool big_endian = false;
  friend bool operator==(const ElementType&, const ElementType&) = default;

  [[nodiscard]] bool is_valid() const;
  [[nodiscard]] bool is_native_float() const {
    return kind == ElementKind::floating && bytes == 4 && !big_endian;
  }
};

// Of text, which is kept as numbers of names (StoredField::names).
inline constexpr ElementType text_numbers{ElementKind::unsigned_integer, 4, false};

// What the attributes of a data set say of its numbers, by the conventions of netCDF and CF: which
// are missing, and how what they stand for is had from what is stored.
struct NumberPacking {
  std::vector<double> missing{};                            // stored numbers
  double least = -std::numeric_limits<double>::infinity();  // stored ones outside are missing
  double most = std::numeric_limits<double>::infinity();
  double scale = 1, offset = 0;
  bool single_product = false, single_sum = false;  // float32 is what numpy would compute these in
  std::string unused{};                             // attributes that say nothing, and why
  friend bool operator==(const NumberPacking&, const NumberPacking&) = default;

  [[nodiscard]] bool is_none() const { return *this == NumberPacking{.unused = unused}; }
};

// "float32", "big-endian uint16", "bfloat16".
[[nodiscard]] std::string name_of(const ElementType& type);

// As float32: wider numbers are rounded to nearest, which may make them infinite; missing ones are
// NaN. `from` may lie at any address, and holds to.size() elements.
void to_floats(const ElementType& type, const NumberPacking& packing, const std::byte* from,
               std::span<float> to);

// One element as a double; 64-bit integers are rounded.
[[nodiscard]] double to_double(const ElementType& type, const std::byte* from);
[[nodiscard]] double to_double(const ElementType& type, const NumberPacking& packing,
                               const std::byte* from);

}  // namespace trireme
