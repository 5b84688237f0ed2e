// SPDX-License-Identifier: Apache-2.0
// Writes HDF5 files as other programs do: any type, layout and filter.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme::test {

// Owns an HDF5 identifier.
class H5 {
 public:
  H5(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) { EXPECT_GE(id, 0); }
  ~H5() { close_(id_); }
  H5(const H5&) = delete;
  H5& operator=(const H5&) = delete;
  operator hid_t() const { return id_; }  // NOLINT: reads as the C library's own

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// `newest`: in the newest format of the library. `user_block`: bytes in front of it.
inline H5 make_hdf5(const std::string& path, bool newest = false, hsize_t user_block = 0) {
  const H5 creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  const H5 access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  EXPECT_GE(H5Pset_userblock(creation, user_block), 0);
  if (newest) {
    EXPECT_GE(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), 0);
  }
  return {H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose};
}

inline H5 change_hdf5(const std::string& path) {
  return {H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose};
}

struct FieldSpec {
  std::vector<hsize_t> extents{};
  hid_t type = H5T_IEEE_F32LE;
  std::vector<hsize_t> chunk{};          // empty: contiguous
  std::function<void(hid_t)> storage{};  // more of the data set's creation properties
  std::vector<hsize_t> most{};           // maximum extents; empty: fixed
};

// Values are converted by the library to the type of the file.
inline void write_field(hid_t file, const std::string& path, const FieldSpec& spec,
                        const std::vector<double>& values) {
  const H5 links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  ASSERT_GE(H5Pset_create_intermediate_group(links, 1), 0);
  const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (!spec.chunk.empty()) {
    ASSERT_GE(H5Pset_chunk(properties, static_cast<int>(spec.chunk.size()), spec.chunk.data()), 0);
  }
  if (spec.storage) spec.storage(properties);
  const H5 space(spec.extents.empty()
                     ? H5Screate(H5S_SCALAR)
                     : H5Screate_simple(static_cast<int>(spec.extents.size()), spec.extents.data(),
                                        spec.most.empty() ? nullptr : spec.most.data()),
                 H5Sclose);
  const H5 data(H5Dcreate2(file, path.c_str(), spec.type, space, links, properties, H5P_DEFAULT),
                H5Dclose);
  if (!values.empty()) {
    ASSERT_GE(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  }
}

inline void write_attribute(hid_t object, const std::string& name, double value,
                            hid_t type = H5T_STD_I32LE) {
  const H5 space(H5Screate(H5S_SCALAR), H5Sclose);
  const H5 attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                     H5Aclose);
  ASSERT_GE(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &value), 0);
}

// Fixed-length texts, padded with NULs or like Fortran with spaces; or of variable length if
// `length` is 0. A data set, or with `attribute` an attribute of the object.
inline void write_texts(hid_t object, const std::string& name,
                        const std::vector<std::string>& texts, std::size_t length,
                        bool attribute = false, bool spaces = false) {
  const H5 type(H5Tcopy(H5T_C_S1), H5Tclose);
  ASSERT_GE(H5Tset_size(type, length == 0 ? H5T_VARIABLE : length), 0);
  ASSERT_GE(H5Tset_strpad(type, spaces ? H5T_STR_SPACEPAD : H5T_STR_NULLPAD), 0);
  const hsize_t count = texts.size();
  const H5 space(
      count == 1 && attribute ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, nullptr),
      H5Sclose);
  std::vector<const char*> pointers;
  std::string fixed;
  for (const std::string& text : texts) {
    pointers.push_back(text.c_str());
    fixed += text.substr(0, length) +
             std::string(length - std::min(length, text.size()), spaces ? ' ' : '\0');
  }
  const void* const bytes = length == 0 ? static_cast<const void*>(pointers.data()) : fixed.data();
  if (attribute) {
    const H5 written(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT),
                     H5Aclose);
    ASSERT_GE(H5Awrite(written, type, bytes), 0);
    return;
  }
  const H5 written(
      H5Dcreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose);
  ASSERT_GE(H5Dwrite(written, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes), 0);
}

inline std::size_t count_of(const std::vector<hsize_t>& extents) {
  std::size_t count = 1;
  for (const hsize_t extent : extents)
    count *= static_cast<std::size_t>(extent);
  return count;
}

// first, first + 1, ...
inline std::vector<double> counting(std::size_t count, double first = 0) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = first + static_cast<double>(i);
  return values;
}

inline std::function<void(hid_t)> deflated(unsigned level = 4, bool shuffled = true) {
  return [=](hid_t properties) {
    if (shuffled) {
      EXPECT_GE(H5Pset_shuffle(properties), 0);
    }
    EXPECT_GE(H5Pset_deflate(properties, level), 0);
  };
}

}  // namespace trireme::test
