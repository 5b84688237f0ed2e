// SPDX-License-Identifier: Apache-2.0
// Fields other than inputs: per-sample numbers or texts, and pixel masks. Private to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/fields/sample_shape.h"
#include "data/fields/storage/field_reader.h"

namespace trireme {

// The fields of a unit in the order of scan_request, and the position of each role.
class UnitFields {
 public:
  UnitFields(const FileIndex& file, const StoredUnit& unit, const FieldOptions& options)
      : file_(&file), unit_(&unit), options_(&options) {}

  [[nodiscard]] const FileIndex& file() const { return *file_; }
  [[nodiscard]] std::span<const StoredField> all() const { return unit_->fields; }
  [[nodiscard]] std::span<const StoredField> inputs() const {
    return all().first(options_->inputs.size());
  }
  [[nodiscard]] const StoredField& target() const { return all()[options_->inputs.size()]; }
  [[nodiscard]] const StoredField& mask() const { return all()[options_->inputs.size() + 1]; }
  // After the mask, if there is one.
  [[nodiscard]] const StoredField& weight() const {
    return all()[options_->inputs.size() + (options_->mask.empty() ? 1 : 2)];
  }
  // The last field, if a field splits the samples.
  [[nodiscard]] const StoredField& split_key() const { return all().back(); }
  [[nodiscard]] const std::string& group() const { return unit_->group; }  // "" or its path
  // For messages: "a.h5" or "a.h5: /group".
  [[nodiscard]] std::string name() const;

 private:
  const FileIndex* file_;
  const StoredUnit* unit_;
  const FieldOptions* options_;
};

// Raises ExitCode::data unless `field` holds one number per sample, or per sample and step. Extents
// of 1 do not count; the first other extent is N with samples: axis, the next T with a window.
// `what`: "a label".
void require_numbers(const UnitFields& unit, const StoredField& field, const SampleShape& shape,
                     std::string_view what);
// The index of the element that belongs to sample `number` of the unit.
[[nodiscard]] std::uint64_t element_of(const UnitFields& unit, const StoredField& field,
                                       const SampleShape& shape, std::uint64_t number);
[[nodiscard]] double read_number(const FieldReader& reader, const UnitFields& unit,
                                 const StoredField& field, std::uint64_t element);

// Raises ExitCode::data unless the mask has the inputs' axes and extents without channels and
// steps; the axis of samples is optional.
void require_mask(const UnitFields& unit, const SampleShape& shape);
// The mask of `rows` rows from `row` on (rows, width): 0 where inputs are masked out.
void read_mask(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
               std::uint64_t number, std::uint64_t row, std::uint64_t rows,
               std::vector<float>& mask);

}  // namespace trireme
