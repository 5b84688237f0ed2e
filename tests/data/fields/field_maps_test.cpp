// SPDX-License-Identifier: Apache-2.0
// Maps of values to predict, inputs with axes of their own, and the layout of The Well.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "data/fields/describe.h"
#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two trajectories of four steps on a grid of 2 x 3: scalars, vectors, matrices, a map that does
// not change in time, and a row that does not change along H either.
class ValueMaps : public FieldData {
 protected:
  void write_flow(const std::string& name, hsize_t steps = 4, double bad = 0) const {
    const H5 file = make_hdf5(path(name));
    const auto numbers = [](hsize_t count, double first) {
      return counting(static_cast<std::size_t>(count), first);
    };
    std::vector<double> heat = numbers(2 * steps * 6, 0);
    if (bad != 0) heat[3 * 6 + 4] = bad;
    write_field(file, "t0_fields/heat", {.extents = {2, steps, 2, 3}}, heat);
    write_field(file, "t0_fields/ground", {.extents = {2, 2, 3}}, numbers(12, 500));
    write_field(file, "t0_fields/row", {.extents = {3}}, numbers(3, 700));
    write_field(file, "t1_fields/speed", {.extents = {2, steps, 2, 3, 2}},
                numbers(2 * steps * 12, 1000));
    write_field(file, "t2_fields/strain", {.extents = {2, steps, 2, 3, 2, 2}},
                numbers(2 * steps * 24, 5000));
    for (const auto& [field, key] :
         {std::pair{"t0_fields/ground", "time_varying"}, std::pair{"t0_fields/row", "time_varying"},
          std::pair{"t0_fields/row", "sample_varying"}}) {
      const H5 object(H5Oopen(file, field, H5P_DEFAULT), H5Oclose);
      write_attribute(object, key, 0);
    }
    const H5 row(H5Oopen(file, "t0_fields/row", H5P_DEFAULT), H5Oclose);
    const hsize_t two = 2;
    const H5 space(H5Screate_simple(1, &two, nullptr), H5Sclose);
    const H5 sides(H5Acreate2(row, "dim_varying", H5T_STD_I8LE, space, H5P_DEFAULT, H5P_DEFAULT),
                   H5Aclose);
    const int flags[] = {0, 1};
    ASSERT_GE(H5Awrite(sides, H5T_NATIVE_INT, flags), 0);
  }
  [[nodiscard]] FieldOptions flow() const {
    FieldOptions options{{.files = {directory_.path()},
                          .samples = SampleUnit::axis,
                          .inputs = {"t0_fields/heat", "t1_fields/speed", "t2_fields/strain",
                                     "t0_fields/ground", "t0_fields/row"},
                          .target = {"t1_fields/speed", "t0_fields/heat"},
                          .axes = "NTHW NTHWC NTHWCC NHW W",
                          .window = 2,
                          .steps_ahead = 1}};
    options.predicted = {TargetKind::values, Shape{1, 0}, 0};
    return options;
  }
  [[nodiscard]] static std::vector<float> targets(const FieldDataset& data, std::int64_t index) {
    std::vector<std::int32_t> bits(static_cast<std::size_t>(data.layout().targets.count()));
    data.read_targets(index, bits);
    std::vector<float> found;
    for (const std::int32_t one : bits)
      found.push_back(std::bit_cast<float>(one));
    return found;
  }
};

TEST_F(ValueMaps, AreReadFromWindowsOfInputsWithAxesOfTheirOwn) {
  write_flow("a.h5");
  const FieldDataset data = open(flow());

  EXPECT_EQ(data.size(), 2 * 2) << "windows of two steps and the next, of four";
  EXPECT_EQ(data.layout().inputs, (Shape{2, 3, 2 + 4 + 8 + 1 + 1}));
  EXPECT_EQ(data.layout().targets, (Shape{2, 3, 3}));
  EXPECT_EQ(data.layout().target_dtype, DType::f32);
  // Sample 3: trajectory 1, steps 1 and 2, then 3. Pixel 4: row 1, column 1.
  const std::vector<float> pixels = values(data, 3), wanted = targets(data, 3);
  const float step1 = (4 + 1) * 6 + 4, step2 = step1 + 6, step3 = step2 + 6;
  std::vector<float> expected{step1, step2};
  for (const float step : {step1, step2})
    for (const int c : {0, 1})
      expected.push_back(1000 + 2 * step + static_cast<float>(c));
  for (const float step : {step1, step2})
    for (const int c : {0, 1, 2, 3})
      expected.push_back(5000 + 4 * step + static_cast<float>(c));
  expected.push_back(500 + 6 + 4);
  expected.push_back(700 + 1);
  const auto pixel = pixels.begin() + 4 * 16;
  EXPECT_EQ(std::vector<float>(pixel, pixel + 16), expected);
  EXPECT_THAT(std::vector<float>(wanted.begin() + 12, wanted.begin() + 15),
              ElementsAre(1000 + 2 * step3, 1001 + 2 * step3, step3));
}

TEST_F(ValueMaps, AreScaledLikeTheLastStepOfTheInputThatTheyAre) {
  write_flow("a.h5");
  FieldOptions options = flow();
  options.inputs = {"t0_fields/heat", "t1_fields/speed"};
  options.axes = "NTHW NTHWC";
  options.scale = {{0, 2, 0, 0, 1000, 500}, {1, 0.5F, 1, 1, 0.25F, 2}};
  const std::vector<float> scaled = targets(open(options), 0);
  const float step = 12;  // the first pixel of step 2
  EXPECT_THAT(std::vector<float>(scaled.begin(), scaled.begin() + 3),
              ElementsAre(2 * step / 4, (501 + 2 * step) * 2, (step - 2) / 2));

  options.target_mean = {1000, 1000, 0};
  options.target_std = {2, 1, 4};
  const std::vector<float> given = targets(open(options), 0);
  EXPECT_THAT(std::vector<float>(given.begin(), given.begin() + 3),
              ElementsAre(step, 1 + 2 * step, step / 4));
}

TEST_F(ValueMaps, ThatAreMissingEndTheRunOrAreNoTargets) {
  write_flow("a.h5", 4, std::nan(""));  // step 3 of trajectory 0
  FieldOptions options = flow();
  const FieldDataset strict = open(options);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(targets(strict, 1)); }, "a.h5", "t0_fields/heat",
      "nan at row 1, column 1", "data.not_finite");
  options.not_finite = NotFinite::zero;
  const FieldDataset lenient = open(options);
  EXPECT_TRUE(std::isnan(targets(lenient, 1)[4 * 3 + 2]));
  EXPECT_THAT(lenient.shortcomings(), HasSubstr("left out 1 targets"));
}

TEST_F(ValueMaps, AreRefusedWithTheReason) {
  write_flow("a.h5");
  {
    const H5 file = change_hdf5(path("a.h5"));
    write_field(file, "coarse", {.extents = {2, 4, 1, 3}}, counting(24));
  }
  const auto refuses = [&](const FieldOptions& options, const auto&... parts) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(options)); }, parts...);
  };
  FieldOptions options = flow();
  options.target = {"coarse"};
  refuses(options, "coarse: a map of values needs the rows and columns", "2 x 4 x 1 x 3",
          "on the same grid");
  options.target = {"t0_fields/ground"};
  refuses(options, "t0_fields/ground: a map of values", "this is 2 x 2 x 3");
  options = flow();
  options.window = 4;
  refuses(options, "has 4 steps; data.window: 4", "needs 5; use smaller ones");
  options = flow();
  options.predicted.shape = Shape{2, 3, 4};
  refuses(options, "gives 3 values per pixel", "t1_fields/speed has 2", "model.values: 3");
  options = flow();
  options.target_mean = options.target_std = {1, 1};
  refuses(options, "data.target_mean: has 2 numbers", "have 3 values");
  options = flow();
  options.axes = "NTHW NTHWC";
  expect_error(
      ExitCode::config, [&] { static_cast<void>(open(options)); }, "data.axes",
      "2 orders for 5 inputs");
  write_flow("b.h5", 2);
  refuses(flow(), "b.h5", "has 2 steps, fewer than");
}

TEST_F(ValueMaps, OfTheWellAreDescribedWithAConfigThatReadsThem) {
  write_flow("a.h5");
  const Description description = describe_files({.names = {path("a.h5")}});

  EXPECT_EQ(description.problem, "");
  for (const char* part :
       {"The Well: 2 samples of 2 x 3: 3 steps in, 1 out; 23 channels, 7 values per pixel",
        "channels: 23, values: 7", "axes: NTHW NTHWC NTHWCC NHW W", "window: 3", "steps_ahead: 1",
        "inputs: [\"t0_fields/heat\", \"t1_fields/speed\", \"t2_fields/strain\", "
        "\"t0_fields/ground\", \"t0_fields/row\"]",
        "not predicted: t0_fields/ground, t0_fields/row"})
    EXPECT_THAT(description.text, HasSubstr(part));
}

}  // namespace
}  // namespace trireme::test
