// SPDX-License-Identifier: Apache-2.0
// Attributes of netCDF and CF; tests/checks/check_netcdf.py compares more with Python's netCDF4.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "data/fields/statistics.h"
#include "tests/data/fields/field_data.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

using test::expect_error;
using test::FieldData;
using test::H5;
using test::make_hdf5;
using test::write_attribute;
using test::write_field;

class FieldPacking : public FieldData {
 protected:
  // One sample of int16 0 to 5 in a file with a label, and attributes of doubles.
  void write(const std::vector<std::pair<std::string, double>>& attributes,
             hid_t type = H5T_STD_I16BE, std::vector<double> values = test::counting(6)) const {
    const H5 file = make_hdf5(path("a.nc"));
    write_field(file, "t", {.extents = {2, 3}, .type = type}, values);
    write_attribute(file, "label", 1);
    const H5 data(H5Dopen2(file, "t", H5P_DEFAULT), H5Dclose);
    for (const auto& [name, value] : attributes)
      write_attribute(data, name, value, H5T_IEEE_F64LE);
  }
  [[nodiscard]] FieldOptions of_file() const {
    return {{.files = {path("a.nc")},
             .inputs = {"t"},
             .target = {"@label"},
             .axes = "HW",
             .not_finite = NotFinite::keep}};
  }
};

TEST_F(FieldPacking, UnpacksNumbersAndLeavesMissingOnesOut) {
  write({{"scale_factor", 0.5}, {"add_offset", 100}, {"_FillValue", 0}, {"valid_max", 4}});
  FieldOptions one = of_file();
  const FieldDataset data = open(one);

  EXPECT_THAT(values(data, 0), testing::ElementsAre(testing::IsNan(), 100.5F, 101.0F, 101.5F,
                                                    102.0F, testing::IsNan()));
  const ChannelStatistics all = statistics_of(data, 1).front();
  EXPECT_EQ(all.count, 4U);
  EXPECT_EQ(all.not_finite, 2U);
  EXPECT_EQ(all.mean, 101.25);
  std::string bytes;
  append_index(bytes, data.indexes().front());
  EXPECT_EQ(parse_indexes(bytes).front(), data.indexes().front());

  one.not_finite = NotFinite::refuse;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(values(open(one), 0)); }, "missing",
      "data.not_finite: zero");
  one.not_finite = NotFinite::zero;
  const FieldDataset zeros = open(one);
  EXPECT_THAT(values(zeros, 0), testing::ElementsAre(0.0F, 100.5F, 101.0F, 101.5F, 102.0F, 0.0F));
  EXPECT_THAT(zeros.shortcomings(), testing::HasSubstr("2 missing"));
  one.mask_and_scale = false;
  EXPECT_EQ(values(open(one), 0), test::floats(test::counting(6)));
}

// Of a map: -2147483647 is no float32, and 7 is outside of the range.
TEST_F(FieldPacking, TheFillValueMayBeTheIgnoredClass) {
  {
    const H5 file = make_hdf5(path("a.nc"));
    write_field(file, "t", {.extents = {2, 3}}, test::counting(6));
    write_field(file, "y", {.extents = {2, 3}, .type = H5T_STD_I32LE}, {0, 1, 255, 2, 255, 1});
    write_field(file, "z", {.extents = {2, 3}, .type = H5T_STD_I32LE}, {0, 1, 255, 7, 255, 1});
    for (const char* const map : {"y", "z"}) {
      const H5 data(H5Dopen2(file, map, H5P_DEFAULT), H5Dclose);
      write_attribute(data, "_FillValue", 255);
      write_attribute(data, "missing_value", -2147483647);
      write_attribute(data, "valid_max", 2);
    }
  }
  FieldOptions one = of_file();
  one.target = {"y"};
  one.not_finite = NotFinite::refuse;
  one.predicted = {TargetKind::pixels, Shape{}, 3};
  const auto read = [&](const FieldDataset& data) {
    std::vector<std::int32_t> map(6);
    data.read_targets(0, map);
    return map;
  };
  expect_error(
      ExitCode::data, [&] { static_cast<void>(read(open(one))); }, "y: sample 0", "row 0, column 2",
      "data.not_finite: zero", "data.ignored_class");
  one.ignored_class = 255;
  EXPECT_THAT(read(open(one)), testing::ElementsAre(0, 1, -1, 2, -1, 1));
  EXPECT_EQ(open(one).targets_left_out(), 0U);
  one.target = {"z"};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(read(open(one))); }, "z: sample 0",
      "row 1, column 0");
  one.not_finite = NotFinite::zero;
  EXPECT_THAT(read(open(one)), testing::ElementsAre(0, 1, -1, -1, -1, 1));
}

TEST_F(FieldPacking, AnotherAttributeIsAnotherDataSet) {
  write({{"scale_factor", 0.5}});
  const std::uint64_t half = open(of_file()).fingerprint();
  write({{"scale_factor", 0.25}});
  EXPECT_NE(open(of_file()).fingerprint(), half);
}

TEST_F(FieldPacking, ReadsSignedNumbersAsUnsignedIfTheFileSaysSo) {
  write({{"_FillValue", -1}}, H5T_STD_I8LE, {0, 1, 127, -128, -2, -1});
  {
    const H5 file = test::change_hdf5(path("a.nc"));
    const H5 data(H5Dopen2(file, "t", H5P_DEFAULT), H5Dclose);
    test::write_texts(data, "_Unsigned", {"true"}, 4, true);
  }
  EXPECT_THAT(values(open(of_file()), 0),
              testing::ElementsAre(0.0F, 1.0F, 127.0F, 128.0F, 254.0F, testing::IsNan()));
}

TEST_F(FieldPacking, NetcdfFillValuesAreMissingExceptInBytes) {
  const auto filled = [](hid_t type, double fill) {
    return [=](hid_t properties) {
      EXPECT_GE(H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &fill), 0) << type;
    };
  };
  {
    const H5 file = make_hdf5(path("a.nc"));
    constexpr double fill = 9.9692099683868690e+36;
    write_field(file, "t", {.extents = {2, 3}, .storage = filled(H5T_IEEE_F32LE, fill)}, {});
    write_field(file, "bytes",
                {.extents = {2, 3}, .type = H5T_STD_U8LE, .storage = filled(H5T_STD_U8LE, 255)},
                {});
    write_attribute(file, "label", 1);
  }
  FieldOptions one = of_file();
  EXPECT_EQ(statistics_of(open(one), 1).front().not_finite, 6U);
  one.inputs = {"bytes"};
  EXPECT_EQ(values(open(one), 0), std::vector<float>(6, 255.0F));
}

TEST_F(FieldPacking, RefusesMeaninglessAttributesAndIgnoresBoundsOfOtherTypes) {
  write({{"valid_min", 0.5}, {"missing_value", 1e9}});
  EXPECT_EQ(values(open(of_file()), 0), test::floats(test::counting(6)));
  EXPECT_THAT(open(of_file()).indexes().front().units.front().fields.front().packing.unused,
              testing::HasSubstr("valid_min is not used: 0.5 is not of type big-endian int16"));

  write({});
  {
    const H5 file = test::change_hdf5(path("a.nc"));
    const H5 data(H5Dopen2(file, "t", H5P_DEFAULT), H5Dclose);
    test::write_texts(data, "scale_factor", {"0.5"}, 3, true);
  }
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(of_file())); }, "scale_factor: holds text",
      "data.mask_and_scale: false");
  FieldOptions stored = of_file();
  stored.mask_and_scale = false;
  EXPECT_EQ(values(open(stored), 0), test::floats(test::counting(6)));
}

TEST_F(FieldPacking, AVirtualDataSetHasItsSourcesAttributes) {
  write({{"scale_factor", 0.5}});
  std::filesystem::rename(path("a.nc"), path("source.nc"));
  const auto add_factor = [&](double factor) {
    const H5 file = test::change_hdf5(path("a.nc"));
    const H5 data(H5Dopen2(file, "t", H5P_DEFAULT), H5Dclose);
    write_attribute(data, "scale_factor", factor, H5T_IEEE_F64LE);
  };
  const auto write_virtual = [&] {
    const H5 file = make_hdf5(path("a.nc"));
    const std::array<hsize_t, 2> extents{2, 3};
    const H5 space(H5Screate_simple(2, extents.data(), nullptr), H5Sclose);
    const H5 properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    EXPECT_GE(H5Pset_virtual(properties, space, "source.nc", "t", space), 0);
    const H5 data(H5Dcreate2(file, "t", H5T_STD_I16BE, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                  H5Dclose);
    write_attribute(file, "label", 1);
  };
  const auto expect_refused = [&](const std::string& why) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(of_file())); }, "source.nc", why,
        "data.mask_and_scale: false");
  };

  write_virtual();
  expect_refused("has the attribute scale_factor");
  FieldOptions stored = of_file();
  stored.mask_and_scale = false;
  EXPECT_EQ(values(open(stored), 0), test::floats(test::counting(6)));
  add_factor(0.25);
  expect_refused("has another attribute scale_factor");
  write_virtual();
  add_factor(0.5);
  EXPECT_EQ(values(open(of_file()), 0), (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5}));
}

TEST_F(FieldPacking, NumbersBeyondFloat32AreRefusedWithTheirRange) {
  write({}, H5T_IEEE_F64LE, {1, 1e47, 2e48, 5e47, -3e47, 0});
  FieldOptions masses = of_file();
  for (const NotFinite treatment : {NotFinite::refuse, NotFinite::zero, NotFinite::keep}) {
    masses.not_finite = treatment;
    expect_error(
        ExitCode::data, [&] { static_cast<void>(statistics_of(open(masses), 1)); }, "a.nc: t",
        "-3e+47 to 2e+48", "log10");
  }
  write({{"_FillValue", 1e300}}, H5T_IEEE_F64LE, {1e30, -2e38, 3e38, 1, HUGE_VAL, 1e300});
  const ChannelStatistics found = statistics_of(open(masses), 1).front();
  EXPECT_EQ(found.count, 4U);
  EXPECT_EQ(found.maximum, 3e38F);
}

}  // namespace
}  // namespace trireme
