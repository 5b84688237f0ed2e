// SPDX-License-Identifier: Apache-2.0
// Fields other than inputs: per-sample numbers or texts, and maps of pixels. Private to this
// folder.
#pragma once

#include <cstdint>
#include <optional>
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
  [[nodiscard]] std::span<const StoredField> targets() const {
    return all().subspan(options_->inputs.size(), options_->target.size());
  }
  [[nodiscard]] const StoredField& mask() const { return all()[after_targets()]; }
  // After the mask, if there is one.
  [[nodiscard]] const StoredField& weight() const {
    return all()[after_targets() + (options_->mask.empty() ? 0 : 1)];
  }
  // The last field, if a field splits the samples.
  [[nodiscard]] const StoredField& split_key() const { return all().back(); }
  [[nodiscard]] const std::string& group() const { return unit_->group; }  // "" or its path
  // For messages: "a.h5" or "a.h5: /group".
  [[nodiscard]] std::string name() const;

 private:
  [[nodiscard]] std::size_t after_targets() const {
    return options_->inputs.size() + options_->target.size();
  }

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

// The numbers of each sample in a field: those at a place along its first `axes` axes, of which
// those longer than 1 are N and, with a window, T.
struct NumbersPlace {
  std::size_t axes = 0;
  std::uint64_t count = 0;  // of a sample
  bool of_step = false;     // each step has its own
};
// Nothing if the field does not have these axes.
[[nodiscard]] std::optional<NumbersPlace> place_of_numbers(const UnitFields& unit,
                                                           const StoredField& field,
                                                           const SampleShape& shape);
// As stored.
void read_numbers(const FieldReader& reader, const UnitFields& unit, const StoredField& field,
                  const SampleShape& shape, std::uint64_t number, std::vector<std::byte>& stored);

// A field with numbers per pixel. A mask may be for all samples; targets may be per step of a
// window, and may have channels: of classes one, of values any number.
enum class MapRole : std::uint8_t { mask, target, values };
// Raises ExitCode::data unless `field` has the inputs' axes and extents, as far as its role needs.
// Returns the channels.
std::uint64_t require_map(const UnitFields& unit, const StoredField& field,
                          const SampleShape& shape, MapRole role);
// As to_floats. Raises ExitCode::data, naming field and range, for finite numbers beyond float32.
void require_floats(const UnitFields& unit, const StoredField& field, const std::byte* from,
                    std::span<float> to);
// The numbers of some lines of a sample (pixels, channels), NaN where they are missing by
// `packing`, or by the field's own.
void read_map(const FieldReader& reader, const UnitFields& unit, const StoredField& field,
              const SampleShape& shape, MapRole role, std::uint64_t number, const Lines& lines,
              std::vector<float>& map, const NumberPacking* packing = nullptr);

}  // namespace trireme
