// SPDX-License-Identifier: Apache-2.0
// Random parts of samples of any extents, and what training changes in them.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/data/fields/field_data.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

struct Sample {
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  friend bool operator==(const Sample&, const Sample&) = default;
};

class PatchData : public FieldData {
 protected:
  static constexpr Voxel patch{3, 4, 4};

  // A volume whose values name their place, 10000 d + 100 h + w, below 2^24; `class_of` a place.
  template <class ClassOf>
  void write_volume(const std::string& name, const Voxel& extents, ClassOf class_of,
                    const FieldSpec& storage = {}) const {
    const auto [depth, height, width] = extents;
    std::vector<double> values, classes;
    for (std::int64_t d = 0; d < depth; ++d) {
      for (std::int64_t h = 0; h < height; ++h) {
        for (std::int64_t w = 0; w < width; ++w) {
          values.push_back(static_cast<double>(10000 * d + 100 * h + w));
          classes.push_back(class_of(d, h, w));
        }
      }
    }
    const std::vector<hsize_t> stored(extents.begin(), extents.end());
    const H5 file = make_hdf5(path(name));
    FieldSpec spec = storage;
    spec.extents = stored;
    write_field(file, "x", spec, values);
    spec.type = H5T_STD_U8LE;
    write_field(file, "y", spec, classes);
  }
  static double parity(std::int64_t d, std::int64_t h, std::int64_t w) {
    return static_cast<double>((d + h + w) % 2);
  }
  // Different extents, one as small as the patch, one in chunks.
  void write_three() const {
    write_volume("a.h5", {3, 4, 4}, parity);
    write_volume("b.h5", {6, 5, 9}, parity);
    write_volume("c.h5", {7, 9, 8}, parity, {.chunk = {2, 3, 3}, .storage = deflated()});
  }
  [[nodiscard]] FieldOptions options() const {
    FieldOptions options{{.files = {directory_.path()}, .inputs = {"x"}, .target = {"y"}}};
    options.axes = "DHW";
    options.depth = patch[0];
    options.height = patch[1];
    options.width = patch[2];
    options.channel_count = 1;
    options.predicted = {TargetKind::pixels, Shape{}, 3};
    options.patches = options.random = true;
    options.seed = 5;
    return options;
  }

  [[nodiscard]] static Sample in_epoch(const FieldDataset& data, std::int64_t epoch,
                                       std::int64_t index) {
    Sample sample = empty(data);
    data.read_in_epoch(epoch, index, std::as_writable_bytes(std::span(sample.inputs)),
                       sample.targets);
    return sample;
  }
  [[nodiscard]] static Sample at(const FieldDataset& data, std::int64_t index, const Voxel& first) {
    Sample sample = empty(data);
    data.read_patch(index, first, std::as_writable_bytes(std::span(sample.inputs)), sample.targets);
    return sample;
  }
  [[nodiscard]] static Sample empty(const FieldDataset& data) {
    return {std::vector<float>(static_cast<std::size_t>(data.layout().inputs.count())),
            std::vector<std::int32_t>(static_cast<std::size_t>(data.layout().targets.count()))};
  }
  // Where a patch that was not moved begins.
  [[nodiscard]] static Voxel first_of(const Sample& sample) {
    const auto value = static_cast<std::int64_t>(sample.inputs.front());
    return {value / 10000, value / 100 % 100, value % 100};
  }
};

TEST_F(PatchData, LieInTheirSamplesAndReachEveryPlaceWithTheMapsOfTheirInputs) {
  write_three();
  const FieldDataset data = open(options());
  ASSERT_EQ(data.layout().inputs, (Shape{3, 4, 4, 1}));
  ASSERT_EQ(data.layout().targets, (Shape{3, 4, 4}));
  ASSERT_EQ(data.size(), 3);
  for (std::int64_t index = 0; index < 3; ++index) {
    const Voxel extents = data.extents_of(index);
    std::set<Voxel> places;
    for (std::int64_t epoch = 0; epoch < 2000; ++epoch) {
      const Sample sample = in_epoch(data, epoch, index);
      const Voxel first = first_of(sample);
      places.insert(first);
      std::size_t i = 0;
      for (std::int64_t d = first[0]; d < first[0] + patch[0]; ++d) {
        for (std::int64_t h = first[1]; h < first[1] + patch[1]; ++h) {
          for (std::int64_t w = first[2]; w < first[2] + patch[2]; ++w, ++i) {
            ASSERT_EQ(sample.inputs[i], static_cast<float>(10000 * d + 100 * h + w));
            ASSERT_EQ(sample.targets[i], (d + h + w) % 2);
          }
        }
      }
      ASSERT_EQ(sample, at(data, index, first));
    }
    EXPECT_EQ(static_cast<std::int64_t>(places.size()),
              (extents[0] - 2) * (extents[1] - 3) * (extents[2] - 3));
  }
}

TEST_F(PatchData, DependOnSeedEpochAndSampleAlone) {
  write_three();
  FieldOptions one = options();
  one.foreground_share = 0.5;
  one.flips = {0.5, 0.5, 0.5};
  one.random_rot90 = true;
  one.brightness = {0.3, 0.5};
  one.noise = {0.1, 0.5};
  const FieldDataset data = open(one), again = open(one);
  std::vector<Sample> samples;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    samples.push_back(in_epoch(data, epoch, 2));
  for (std::int64_t epoch = 20; epoch-- > 0;) {  // in another order, among others
    static_cast<void>(in_epoch(again, epoch, 1));
    EXPECT_EQ(in_epoch(again, epoch, 2), samples[static_cast<std::size_t>(epoch)]) << epoch;
  }
  one.seed = 6;
  const FieldDataset other = open(one);
  int equal = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch)
    equal += in_epoch(other, epoch, 2) == samples[static_cast<std::size_t>(epoch)] ? 1 : 0;
  EXPECT_LT(equal, 3);
  EXPECT_NE(samples[0], samples[1]);
}

TEST_F(PatchData, OfEvaluationAreTheCentreUnchanged) {
  write_three();
  FieldOptions one = options();
  one.flips = {1, 1, 1};
  one.noise = {1, 1};
  one.random = false;
  const FieldDataset data = open(one);
  EXPECT_EQ(in_epoch(data, 4, 1), at(data, 1, {1, 0, 2}));
  EXPECT_EQ(in_epoch(data, 9, 2), at(data, 2, {2, 2, 2}));

  one.random = true;
  one.validation_fraction = 0.4;
  one.subset = Subset::training;
  const FieldDataset training = open(one);
  const auto rest = training.held_back();
  ASSERT_EQ(rest->size(), 1);
  Sample first = empty(training), second = first;
  rest->read_in_epoch(0, 0, std::as_writable_bytes(std::span(first.inputs)), first.targets);
  rest->read_in_epoch(1, 0, std::as_writable_bytes(std::span(second.inputs)), second.targets);
  EXPECT_EQ(first, second);
}

// Two far voxels of classes above 0 in 24 x 12 x 12: a random patch holds one in a few of a
// thousand cases.
TEST_F(PatchData, HoldForegroundInTheGivenShareAndEachVoxelEquallyOften) {
  write_volume("a.h5", {24, 12, 12},
               [](std::int64_t d, std::int64_t h, std::int64_t w) {
                 return d == 0 && h == 0 && w == 0 ? 1.0 : d == 20 && h == 6 && w == 11 ? 2.0 : 0.0;
               },
               {.chunk = {5, 4, 12}, .storage = deflated()});
  write_volume("b.h5", {4, 5, 4}, [](auto...) { return 0.0; });
  FieldOptions one = options();
  one.foreground_share = 0.4;
  const FieldDataset data = open(one);
  constexpr int count = 4000;
  std::map<std::int32_t, int> held;
  for (std::int64_t epoch = 0; epoch < count; ++epoch)
    ++held[std::ranges::max(in_epoch(data, epoch, 0).targets)];
  // 4 standard deviations of a binomial count, and 3 % of random patches that hold one.
  const double deviation = std::sqrt(count * 0.2 * 0.8);
  for (const std::int32_t kind : {1, 2}) {
    EXPECT_GT(held[kind], count * 0.2 - 4 * deviation) << kind;
    EXPECT_LT(held[kind], count * (0.2 + 0.6 * 0.03) + 4 * deviation) << kind;
  }
  std::set<Voxel> places;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch)
    places.insert(first_of(in_epoch(data, epoch, 1)));
  EXPECT_EQ(places.size(), 4U) << "a sample without foreground gives random patches";

  one.ignored_class = 2;
  const FieldDataset ignoring = open(one);
  int second = 0;
  for (std::int64_t epoch = 0; epoch < count; ++epoch)
    second += first_of(in_epoch(ignoring, epoch, 0))[0] > 17 ? 1 : 0;
  EXPECT_LT(second, count * 0.2) << "an ignored class is no foreground";
}

// More voxels of foreground than are kept: all parts of the sample stay reachable.
TEST_F(PatchData, AroundMuchForegroundReachAllOfIt) {
  write_volume("a.h5", {30, 24, 24}, [](auto...) { return 1.0; });
  FieldOptions one = options();
  one.foreground_share = 1;
  const FieldDataset data = open(one);
  std::array<int, 28> slices{};
  constexpr int count = 2800;
  for (std::int64_t epoch = 0; epoch < count; ++epoch)
    ++slices[static_cast<std::size_t>(first_of(in_epoch(data, epoch, 0))[0])];
  for (const int slice : slices) {
    EXPECT_GT(slice, 50);
    EXPECT_LT(slice, 240);
  }
}

TEST_F(PatchData, FlipsAndTurnsMoveInputsAndMapsAlike) {
  write_volume("a.h5", {3, 4, 4}, [](std::int64_t d, std::int64_t h, std::int64_t w) {
    return static_cast<double>((d + 2 * h * h + w * w * w) % 3);
  });
  FieldOptions one = options();
  const Sample plain = in_epoch(open(one), 0, 0);
  std::map<float, std::int32_t> class_at;
  for (std::size_t i = 0; i < plain.inputs.size(); ++i)
    class_at[plain.inputs[i]] = plain.targets[i];
  const auto voxel = [](const Sample& of, std::int64_t d, std::int64_t h, std::int64_t w) {
    return of.inputs[static_cast<std::size_t>((d * 4 + h) * 4 + w)];
  };

  one.flips = {1, 0, 1};
  const Sample flipped = in_epoch(open(one), 0, 0);
  EXPECT_EQ(voxel(flipped, 0, 1, 0), 20103.0F);
  EXPECT_EQ(voxel(flipped, 2, 3, 3), 300.0F);

  // All eight symmetries of a square, times two of the slices, about equally often.
  one.flips = {0.5, 0.5, 0.5};
  one.random_rot90 = true;
  const FieldDataset data = open(one);
  std::map<std::vector<float>, int> seen;
  for (std::int64_t epoch = 0; epoch < 1600; ++epoch) {
    const Sample moved = in_epoch(data, epoch, 0);
    ++seen[moved.inputs];
    for (std::size_t i = 0; i < moved.inputs.size(); ++i)
      ASSERT_EQ(moved.targets[i], class_at.at(moved.inputs[i]));
    // Neighbours stay neighbours: these are isometries.
    const float across = std::abs(voxel(moved, 1, 2, 2) - voxel(moved, 1, 2, 1)),
                down = std::abs(voxel(moved, 1, 2, 1) - voxel(moved, 1, 1, 1));
    ASSERT_TRUE((across == 1 && down == 100) || (across == 100 && down == 1));
  }
  EXPECT_EQ(seen.size(), 16U);
  for (const auto& [sample, times] : seen) {
    EXPECT_GT(times, 55);
    EXPECT_LT(times, 150);
  }
}

TEST_F(PatchData, FlipsOfImagesNeedNoPatchesAndKeepTheirChannels) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 3, 2}}, counting(12));
    write_field(file, "y", {.extents = {1}, .type = H5T_STD_U8LE}, {1});
  }
  FieldOptions one{{.files = {directory_.path()}, .inputs = {"x"}, .target = {"y"}}};
  one.random = true;
  one.flips = {0, 1};
  const Sample sample = in_epoch(open(one), 0, 0);
  EXPECT_THAT(sample.inputs, testing::ElementsAre(4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7));
  EXPECT_THAT(sample.targets, testing::ElementsAre(1));
}

TEST_F(PatchData, BrightnessAndNoiseFollowTheirLawsAndLeaveMapsAlone) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {3, 4, 4}}, std::vector<double>(48, 2.0));
    write_field(file, "y", {.extents = {3, 4, 4}, .type = H5T_STD_U8LE},
                std::vector<double>(48, 1.0));
  }
  FieldOptions one = options();
  one.brightness = {0.3, 0.25};
  const FieldDataset bright = open(one);
  int changed = 0;
  double least = 2, most = 2;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    const Sample sample = in_epoch(bright, epoch, 0);
    for (const float value : sample.inputs)
      ASSERT_EQ(value, sample.inputs.front());
    for (const std::int32_t target : sample.targets)
      ASSERT_EQ(target, 1);
    const auto value = static_cast<double>(sample.inputs.front());
    least = std::min(least, value);
    most = std::max(most, value);
    changed += value != 2 ? 1 : 0;
  }
  EXPECT_NEAR(changed, 250, 55);
  EXPECT_GE(least, 1.4 - 1e-6);
  EXPECT_LT(least, 1.45);
  EXPECT_LE(most, 2.6 + 1e-6);
  EXPECT_GT(most, 2.55);

  one.brightness.clear();
  one.noise = {0.5, 1};
  const FieldDataset noisy = open(one);
  double sum = 0, square = 0;
  std::set<float> values;
  for (std::int64_t epoch = 0; epoch < 1000; ++epoch) {
    for (const float value : in_epoch(noisy, epoch, 0).inputs) {
      values.insert(value);
      sum += static_cast<double>(value) - 2;
      square += std::pow(static_cast<double>(value) - 2, 2);
    }
  }
  EXPECT_NEAR(sum / 48000, 0, 0.01);
  // The mean of squares of deviations that are uniform up to s is s^2 / 3.
  EXPECT_NEAR(square / 48000, 0.25 / 3, 0.01);
  EXPECT_GT(values.size(), 40000U) << "every voxel and pass has its own noise";
}

TEST_F(PatchData, RefuseByNameWhatDoesNotFit) {
  write_three();
  write_volume("d.h5", {9, 4, 3}, parity);
  FieldOptions one = options();
  const auto refused = [&](ExitCode code, auto... what) {
    expect_error(
        code, [&] { static_cast<void>(open(one)); }, what...);
  };
  refused(ExitCode::data, "d.h5", "data.patches", "samples are 9 x 4 x 3", "model's 3 x 4 x 4",
          "at most 3 x 4 x 3");
  one.width = 3;
  EXPECT_EQ(open(one).size(), 4);
  one.random_rot90 = true;
  refused(ExitCode::config, "data.random_rot90", "4 rows and 3 columns");
  one.random_rot90 = false;
  one.patches = false;
  refused(ExitCode::data, "b.h5", "all samples of a data set must have the same shape");
}

TEST_F(PatchData, OfASampleWhoseMapDoesNotDecodeAreSkippedOrRefused) {
  write_three();
  FieldOptions one = options();
  one.foreground_share = 1;
  auto indexes = scan_in_children(expand_files(one.files), scan_request(one), 1);
  indexes[2].units[0].fields[1].chunks.back().bytes /= 2;
  const FieldDataset refusing(indexes, one);
  one.damaged = Damaged::skip;
  const FieldDataset skipping(std::move(indexes), one);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(in_epoch(refusing, 0, 2)); }, "c.h5: y",
      "does not decode");
  EXPECT_THAT(in_epoch(skipping, 0, 2).targets, testing::Each(-1));
  EXPECT_THAT(skipping.shortcomings(), testing::HasSubstr("left out 1 samples"));
}

TEST_F(PatchData, ForegroundNeedsMaps) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {5, 5, 5}}, counting(125));
    write_field(file, "y", {.extents = {1}, .type = H5T_STD_U8LE}, {1});
  }
  FieldOptions one = options();
  one.predicted = {TargetKind::label, Shape{}, 2};
  EXPECT_EQ(in_epoch(open(one), 0, 0).targets.front(), 1);
  one.foreground_share = 0.5;
  expect_error(
      ExitCode::config, [&] { static_cast<void>(open(one)); }, "data.foreground_share: 0.5",
      "does not predict maps");
}

}  // namespace
}  // namespace trireme::test
