// SPDX-License-Identifier: Apache-2.0
// What the models predict: the classes of samples or of their pixels, or numbers. Private to this
// folder.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/fields/sample_numbers.h"
#include "data/fields/sample_shape.h"
#include "runtime/config/target_spec.h"

namespace trireme {

class SampleTargets {
 public:
  // `options` must outlive it.
  explicit SampleTargets(const FieldOptions& options);

  // For each unit, in order. Raises ExitCode::data, naming file, data set and the fix, unless its
  // targets are of the kind and number that the model predicts.
  void require(const UnitFields& unit, const SampleShape& shape);
  // After these: maps of values that are also an input are scaled like its last step, unless
  // data.target_mean is given.
  void take_scale(const UnitFields& unit, const SampleShape& shape);
  // After all units: names the classes of texts by all files, sorted, unless they are given.
  void take_names(std::span<const UnitFields> units);

  // With the shape of a sample's targets.
  [[nodiscard]] const TargetSpec& spec() const { return spec_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const { return class_names_; }

  // Of sample `number` of a unit: classes, or the bits of floats. Thread-safe. Raises
  // ExitCode::data naming file, data set, place and value.
  void read(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
            std::uint64_t number, std::span<std::int32_t> to) const;
  // Those that were missing, NaN or infinite, and left out.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void require_classes(const UnitFields& unit, std::int64_t classes);
  void require_values(const UnitFields& unit, const SampleShape& shape);
  void require_value_maps(const UnitFields& unit, const SampleShape& shape);
  [[nodiscard]] double classes() const;
  [[nodiscard]] bool is_class(double value) const;
  [[nodiscard]] std::string advice_for(float value) const;
  // Whether a label is one of several numbers, of which that of its class is 1 and the rest 0.
  [[nodiscard]] std::optional<std::int64_t> one_hot(const UnitFields& unit,
                                                    const SampleShape& shape) const;
  [[nodiscard]] std::int32_t read_one_hot(const FieldReader& reader, const UnitFields& unit,
                                          const SampleShape& shape, std::uint64_t number) const;
  [[nodiscard]] std::int32_t read_label(const FieldReader& reader, const UnitFields& unit,
                                        const SampleShape& shape, std::uint64_t number) const;
  void read_pixels(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
                   std::uint64_t number, std::span<std::int32_t> to) const;
  void read_values(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
                   std::uint64_t number, std::span<std::int32_t> to) const;
  void read_value_maps(const FieldReader& reader, const UnitFields& unit, const SampleShape& shape,
                       std::uint64_t number, std::span<std::int32_t> to) const;
  // The bits of a value to predict; `at`: its place among those of a sample, or of a pixel. `place`
  // names it.
  template <typename Place>
  [[nodiscard]] std::int32_t settled(double value, std::size_t at, const Place& place) const;

  const FieldOptions& options_;
  TargetSpec spec_;
  std::vector<double> mean_, std_;  // of values; empty: unscaled
  bool known_ = false;              // spec_.shape is final
  std::vector<std::string> class_names_;
  std::unordered_map<std::string, std::int32_t> numbers_;  // of class names
  mutable std::atomic<std::uint64_t> left_out_ = 0;
};

}  // namespace trireme
