// SPDX-License-Identifier: Apache-2.0
// Number types of HDF5 files, and their conversion.
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

// Text, stored as indexes of names (StoredField::names).
inline constexpr ElementType text_numbers{ElementKind::unsigned_integer, 4, false};

// netCDF and CF attributes of a data set: which values are missing, and how stored numbers are
// unpacked.
struct NumberPacking {
  std::vector<double> missing{};                            // stored numbers
  double least = -std::numeric_limits<double>::infinity();  // stored values outside are missing
  double most = std::numeric_limits<double>::infinity();
  double scale = 1, offset = 0;
  bool single_product = false, single_sum = false;  // numpy would compute these in float32
  std::string unused{};                             // attributes without effect, and why
  friend bool operator==(const NumberPacking&, const NumberPacking&) = default;

  [[nodiscard]] bool is_none() const { return *this == NumberPacking{.unused = unused}; }
};

// "float32", "big-endian uint16", "bfloat16".
[[nodiscard]] std::string name_of(const ElementType& type);

// As float32: wider numbers are rounded to nearest, possibly to infinity; missing values become
// NaN. `from` may be unaligned and holds to.size() elements.
void to_floats(const ElementType& type, const NumberPacking& packing, const std::byte* from,
               std::span<float> to);

// One element as a double; 64-bit integers are rounded.
[[nodiscard]] double to_double(const ElementType& type, const std::byte* from);
[[nodiscard]] double to_double(const ElementType& type, const NumberPacking& packing,
                               const std::byte* from);

}  // namespace trireme
