// SPDX-License-Identifier: Apache-2.0
// Targets that are numbers or maps of classes.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

class FieldTargets : public FieldData {
 protected:
  [[nodiscard]] static std::vector<std::int32_t> classes(const FieldDataset& data,
                                                         std::int64_t index) {
    std::vector<std::int32_t> found(static_cast<std::size_t>(data.layout().targets.count()));
    data.read_targets(index, found);
    return found;
  }
  [[nodiscard]] static std::vector<float> numbers(const FieldDataset& data, std::int64_t index) {
    std::vector<float> found;
    for (const std::int32_t bits : classes(data, index))
      found.push_back(std::bit_cast<float>(bits));
    return found;
  }
  [[nodiscard]] FieldOptions along(TargetKind kind, std::vector<std::string> target) const {
    FieldOptions options{{.files = {path("a.h5")},
                          .samples = SampleUnit::axis,
                          .inputs = {"x"},
                          .target = std::move(target),
                          .axes = "NHW"}};
    options.predicted = {kind, Shape{}, 0};
    return options;
  }
  template <typename... Words>
  static void refuses(const FieldOptions& options, const Words&... words) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(options)); }, words...);
  }
};

TEST_F(FieldTargets, NumbersComeFromOneOrSeveralDataSetsAndAttributes) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {3, 2, 2}}, counting(12));
    write_field(file, "many", {.extents = {3, 1, 2}, .type = H5T_STD_I16BE, .chunk = {2, 1, 1}},
                counting(6, -3));
    write_field(file, "one", {.extents = {3}, .type = H5T_IEEE_F64LE}, {0.1, 0.2, 0.3});
    write_field(file, "turned", {.extents = {2, 3}}, counting(6));
    write_texts(file, "words", {"a", "b", "c"}, 4);
  }
  EXPECT_THAT(numbers(open(along(TargetKind::values, {"many"})), 1), ElementsAre(-1, 0));
  const FieldDataset both = open(along(TargetKind::values, {"one", "many"}));
  EXPECT_EQ(both.layout().targets, (Shape{3}));
  EXPECT_EQ(both.layout().target_dtype, DType::f32);
  EXPECT_THAT(numbers(both, 2), ElementsAre(0.3F, 1, 2));
  EXPECT_NE(both.fingerprint(), open(along(TargetKind::values, {"one"})).fingerprint());

  refuses(along(TargetKind::values, {"one", "turned"}), "a.h5", "turned", "2 x 3",
          "the samples as the first axis");
  refuses(along(TargetKind::values, {"words"}), "words", "holds text");
  FieldOptions four = along(TargetKind::values, {"one", "many"});
  four.predicted.shape = Shape{4};
  refuses(four, "a.h5", "3 numbers per sample (one has 1, many has 2)", "the model predicts 4",
          "model.targets: 3");
  four.predicted.shape = Shape{3};
  EXPECT_EQ(open(four).layout().targets, (Shape{3}));
  four.target_mean = four.target_std = {1, 1};
  refuses(four, "data.target_mean", "has 2 numbers", "have 3");
}

TEST_F(FieldTargets, EachFileHasItsNumbers) {
  for (int i = 0; i < 3; ++i) {
    const H5 file = make_hdf5(path(fmt::format("{}.h5", i)));
    write_field(file, "x", {.extents = {2, 2}}, counting(4));
    write_attribute(file, "omega", 0.5 * i, H5T_IEEE_F64LE);
    write_field(file, "sigma", {.extents = {}}, {2.0 * i});
    write_field(file, "more", {.extents = {i == 2 ? 3U : 2U}}, counting(i == 2 ? 3 : 2));
  }
  FieldOptions one{
      {.files = {directory_.path()}, .inputs = {"x"}, .target = {"@omega", "sigma"}, .axes = "HW"}};
  one.predicted = {TargetKind::values, Shape{2}, 0};
  EXPECT_THAT(numbers(open(one), 1), ElementsAre(0.5F, 2));
  one.target = {"more"};
  refuses(one, "2.h5", "3 numbers per sample", "the model predicts 2");
  one.predicted.shape = Shape{};
  refuses(one, "2.h5", "other samples have 2");
}

TEST_F(FieldTargets, NumbersOfAWindowAreThoseOfItsLaterStep) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 4, 1, 1}}, counting(8));  // (N, T, H, W)
    write_field(file, "steps", {.extents = {2, 4, 3}}, counting(24));
    write_field(file, "runs", {.extents = {2, 3}}, counting(6, 100));
  }
  FieldOptions one = along(TargetKind::values, {"steps"});
  one.axes = "NTHW";
  one.window = 2;
  EXPECT_THAT(numbers(open(one), 4), ElementsAre(12 + 6, 12 + 7, 12 + 8)) << "steps 1 and 2";
  one.target = {"runs"};
  EXPECT_THAT(numbers(open(one), 4), ElementsAre(103, 104, 105));
  one.steps_ahead = 1;
  refuses(one, "runs", "the samples, then the steps");
  one.target = {"steps"};
  EXPECT_THAT(numbers(open(one), 3), ElementsAre(12 + 9, 12 + 10, 12 + 11));
}

TEST_F(FieldTargets, NumbersThatAreMissingEndTheRunOrAreNoTargets) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 2, 2}}, counting(8));
    write_field(file, "y", {.extents = {2, 2}, .type = H5T_IEEE_F64LE}, {1, 2, nan, 1e300});
  }
  FieldOptions one = along(TargetKind::values, {"y"});
  const FieldDataset strict = open(one);
  EXPECT_THAT(numbers(strict, 0), ElementsAre(1, 2));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(numbers(strict, 1)); }, "a.h5", "y: sample 1",
      "nan as number 0", "data.not_finite");
  for (const NotFinite kind : {NotFinite::zero, NotFinite::keep}) {
    one.not_finite = kind;
    const FieldDataset data = open(one);
    EXPECT_TRUE(std::isnan(numbers(data, 1)[0]));
    EXPECT_TRUE(std::isnan(numbers(data, 1)[1])) << "too large for float32";
    EXPECT_THAT(data.shortcomings(), testing::HasSubstr("left out 4 targets"));
  }
}

TEST_F(FieldTargets, KeysOfOtherTargetsAreRefused) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 2, 2}}, counting(8));
    write_field(file, "y", {.extents = {2}}, {0, 1});
  }
  const auto refused = [](const FieldOptions& options, const char* key) {
    expect_error(
        ExitCode::config, [&] { static_cast<void>(open(options)); }, key);
  };
  refused(along(TargetKind::label, {"y", "y"}), "data.target: names 2");
  refused(along(TargetKind::values, {}), "data.target: not set");
  FieldOptions unequal = along(TargetKind::values, {"y"});
  unequal.target_mean = {1};
  refused(unequal, "data.target_mean: has 1 numbers, but data.target_std 0");
  FieldOptions cropped = along(TargetKind::label, {"y"});
  cropped.crop = {0, 0, 0, 1, 1, 1};
  refused(cropped, "data.crop: has 6 numbers, but images need 4");
  FieldOptions scaled = along(TargetKind::label, {"y"});
  scaled.target_mean = scaled.target_std = {1};
  refused(scaled, "data.target_mean: has no effect");
  FieldOptions named = along(TargetKind::values, {"y"});
  named.class_names = {"a", "b"};
  refused(named, "data.class_names: has no effect");
  named.class_names.clear();
  named.ignored_class = 255;
  refused(named, "data.ignored_class: has no effect");
}

TEST_F(FieldTargets, MapsFollowTheInputsAxesCropAndWindow) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 3, 3, 4}}, counting(72));  // (N, T, H, W)
    write_field(file, "steps", {.extents = {2, 3, 3, 4}, .chunk = {1, 1, 2, 4}}, counting(72));
    write_field(file, "flat", {.extents = {2, 3, 4}, .type = H5T_STD_U8LE}, counting(24));
    write_field(file, "turned", {.extents = {2, 4, 3}}, counting(24));
  }
  FieldOptions one = along(TargetKind::pixels, {"steps"});
  one.axes = "NTHW";
  one.window = 2;
  one.crop = {1, 2, 2, 2};
  const FieldDataset data = open(one);
  EXPECT_EQ(data.layout().targets, (Shape{2, 2}));
  EXPECT_EQ(data.layout().target_dtype, DType::i32);
  EXPECT_THAT(classes(data, 3), ElementsAre(66, 67, 70, 71)) << "step 2 of sample 1";
  one.target = {"flat"};
  EXPECT_THAT(classes(open(one), 3), ElementsAre(18, 19, 22, 23));
  one.steps_ahead = 1;
  refuses(one, "flat", "a map of classes needs the rows and columns");
  one.target = {"turned"};
  refuses(one, "turned", "2 x 4 x 3");
  one.axes = "NTWH";  // 3 columns of 4 rows
  one.target = {"steps"};
  one.steps_ahead = 0;
  one.crop = {1, 1, 2, 2};
  EXPECT_THAT(classes(open(one), 3), ElementsAre(65, 69, 66, 70));
}

// Like labels of U-Net for volumes: (D, H, W), or with a channel.
TEST_F(FieldTargets, MapsOfVolumes) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 2, 3, 2}}, counting(24));
    write_field(file, "y", {.extents = {2, 2, 3}, .type = H5T_STD_U8LE},
                {0, 1, 2, 0, 255, 1, 2, 2, 2, 0, 0, 1});
    write_field(file, "one", {.extents = {2, 2, 3, 1}}, counting(12));
    write_field(file, "two", {.extents = {2, 2, 3, 2}}, counting(24));
  }
  FieldOptions one{{.files = {path("a.h5")}, .inputs = {"x"}, .target = {"y"}, .axes = "DHWC"}};
  one.depth = any_depth;
  one.predicted = {TargetKind::pixels, Shape{}, 3};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(classes(open(one), 0)); }, "a.h5", "y: sample 0",
      "the class 255 at slice 0, row 1, column 1", "3 classes", "data.ignored_class: 255");
  one.ignored_class = 255;
  EXPECT_THAT(classes(open(one), 0), ElementsAre(0, 1, 2, 0, -1, 1, 2, 2, 2, 0, 0, 1));
  one.crop = {1, 0, 1, 1, 2, 2};
  EXPECT_THAT(classes(open(one), 0), ElementsAre(2, 2, 0, 1));
  one.predicted.classes = 2;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(classes(open(one), 0)); },
      "the class 2 at slice 1, row 0, column 1");
  one.target = {"one"};
  one.predicted.classes = 0;
  EXPECT_THAT(classes(open(one), 0), ElementsAre(7, 8, 10, 11));
  one.target = {"two"};
  refuses(one, "two", "slices, rows and columns", "2 x 2 x 3 x 2");
}

TEST_F(FieldTargets, MapsHoldWholeNumbers) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {3, 1, 3}}, counting(9));
    write_field(file, "y", {.extents = {3, 1, 3}}, {1, 0, -1, 0, 0.5, 0, 1, nan, 0});
  }
  FieldOptions one = along(TargetKind::pixels, {"y"});
  one.predicted.classes = 2;
  const FieldDataset strict = open(one);
  EXPECT_THAT(classes(strict, 0), ElementsAre(1, 0, -1)) << "-1 is no target, as in a batch";
  for (const auto& [sample, value] : {std::pair(1, "0.5"), std::pair(2, "nan")}) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(classes(strict, sample)); },
        fmt::format("the class {} at row 0, column 1", value));
  }
  one.not_finite = NotFinite::zero;
  const FieldDataset data = open(one);
  EXPECT_THAT(classes(data, 2), ElementsAre(1, -1, 0));
  EXPECT_THAT(data.shortcomings(), testing::HasSubstr("left out 1 targets"));
  one.ignored_class = 0;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(classes(open(one), 0)); }, "the class -1 at");
}

// A chunk of a map that does not decode excludes the sample, as one of the input does.
TEST_F(FieldTargets, NoTargetOfADamagedSampleCounts) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 2, 2}, .chunk = {1, 2, 2}, .storage = deflated()},
                counting(8));
    write_field(file, "y", {.extents = {2, 2}}, counting(4));
  }
  FieldOptions one = along(TargetKind::values, {"y"});
  one.damaged = Damaged::skip;
  auto indexes = scan_in_children(expand_files(one.files), scan_request(one), 1);
  indexes[0].units[0].fields[0].chunks[1].bytes /= 2;
  const FieldDataset data(std::move(indexes), one);
  std::vector<float> inputs(4);
  std::vector<std::int32_t> targets(2);
  data.read(1, std::as_writable_bytes(std::span(inputs)), targets);
  for (const std::int32_t bits : targets)
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(bits)));
  EXPECT_THAT(inputs, testing::Each(0.0F));
}

}  // namespace
}  // namespace trireme::test
