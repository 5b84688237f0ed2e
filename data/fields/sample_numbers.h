// SPDX-License-Identifier: Apache-2.0
// Fields beside the inputs: what samples have one of each, numbers or text, and masks of their
// pixels.
// Private to this folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/fields/sample_shape.h"
#include "data/fields/storage/field_reader.h"

namespace trireme {

// The fields of a unit, as they were asked for (scan_request), and where each role stands.
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
  // Behind the mask, where there is one.
  [[nodiscard]] const StoredField& weight() const {
    return all()[options_->inputs.size() + (options_->mask.empty() ? 1 : 2)];
  }
  // Behind all others, where samples are told apart by a field.
  [[nodiscard]] const StoredField& split_key() const { return all().back(); }
  [[nodiscard]] const std::string& group() const { return unit_->group; }  // "" or its path
  // For messages: "a.h5" or "a.h5: /group".
  [[nodiscard]] std::string name() const;

 private:
  const FileIndex* file_;
  const StoredUnit* unit_;
  const FieldOptions* options_;
};

// Raises ExitCode::data unless `field` holds one number per sample, or per sample and step: of its
// extents those that are 1 do not count, and of the others the first is N with samples: axis, the
// next T with a window. `what`: "a label".
void require_numbers(const UnitFields& unit, const StoredField& field, const SampleShape& shape,
                     std::string_view what);
// Which element of such a field is that of sample `number` of the unit.
[[nodiscard]] std::uint64_t element_of(const UnitFields& unit, const StoredField& field,
                                       const SampleShape& shape, std::uint64_t number);
[[nodiscard]] double read_number(const FieldReader& reader, const UnitFields& unit,
                                 const StoredField& field, std::uint64_t element);

// Raises ExitCode::data unless the mask has the axes of the inputs without channels and steps, and
// their extents; one without the axis of samples is that of all of them.
void require_mask(const UnitFields& unit, const SampleShape& shape);
// Of `rows` rows from `row` on (rows, width): 0 where the input is to be left out.
void read_mask(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
               std::uint64_t number, std::uint64_t row, std::uint64_t rows,
               std::vector<float>& mask);

}  // namespace trireme
