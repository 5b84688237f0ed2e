// SPDX-License-Identifier: Apache-2.0
// Data sets of HDF5 files that a test writes.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/fields/index_store.h"
#include "data/fields/join.h"
#include "data/files/file_tree.h"
#include "data/hdf5/child.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {

class FieldData : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // A file with one sample: `data` (4, 5, 3) counting from 1000 x label, and the attribute label.
  std::string write_sample(const std::string& name, int label, const FieldSpec& spec) const {
    const H5 file = make_hdf5(path(name));
    write_field(file, "climate/data", spec, counting(count_of(spec.extents), 1000.0 * label));
    write_attribute(file, "label", label);
    return path(name);
  }

  [[nodiscard]] static FieldDataset open(const FieldOptions& options) {
    return FieldDataset(scan_in_children(expand_files(options.files), scan_request(options), 1),
                        options);
  }
  [[nodiscard]] static std::vector<float> values(const FieldDataset& data, std::int64_t index,
                                                 std::int32_t* label = nullptr) {
    std::vector<float> sample(static_cast<std::size_t>(data.layout().inputs.count()));
    std::vector<std::int32_t> targets(static_cast<std::size_t>(data.layout().targets.count()), -7);
    data.read(index, std::as_writable_bytes(std::span(sample)), targets);
    if (label != nullptr) *label = targets.front();
    return sample;
  }
  [[nodiscard]] static std::int32_t label(const FieldDataset& data, std::int64_t index) {
    std::int32_t target = -7;
    data.read_targets(index, {&target, 1});
    return target;
  }
  [[nodiscard]] FieldOptions options() const {
    return {{.files = {directory_.path()}, .inputs = {"climate/data"}, .target = {"@label"}}};
  }

  const TemporaryDirectory directory_;
};

inline std::vector<float> floats(const std::vector<double>& from) {
  return {from.begin(), from.end()};
}

}  // namespace trireme::test
