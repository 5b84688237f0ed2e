// SPDX-License-Identifier: Apache-2.0
// Other data sets of HDF5 files: masks, weights, text labels, split keys; and volumes.
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "tests/data/fields/field_data.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

// Three samples of (2, 3, 2) along N, NaN where the mask of sample 1 is 0.
TEST_F(FieldData, MaskedInputsAreIgnoredAndZeroAfterScaling) {
  std::vector<double> stored = counting(36);
  stored[12 + 2] = stored[12 + 3] = std::nan("");
  const std::vector<double> masks = {1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0};
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {3, 2, 3, 2}, .chunk = {1, 1, 3, 2}, .storage = deflated()},
                stored);
    write_field(file, "labels", {.extents = {3}, .type = H5T_STD_I32LE}, {0, 1, 0});
    write_field(file, "each", {.extents = {3, 2, 3}, .type = H5T_STD_U8LE}, masks);
    write_field(file, "all", {.extents = {2, 3}}, {1, 0, 1, 1, 1, 1});
    write_field(file, "turned", {.extents = {3, 2}}, {1, 1, 0, 1, 1, 1});
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .samples = SampleUnit::axis,
                    .inputs = {"u"},
                    .target = {"labels"},
                    .mask = "each",
                    .axes = "NHWC"}};
  one.scale = {.subtract = {100, 100}, .multiply = {2, 2}};
  const FieldDataset data = open(one);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<float> sample = values(data, static_cast<std::int64_t>(i));
    for (std::size_t k = 0; k < 12; ++k) {
      const float scaled = (static_cast<float>(stored[i * 12 + k]) - 100) * 2;
      EXPECT_EQ(sample[k], masks[i * 6 + k / 2] == 0 ? 0.0F : scaled) << i << " " << k;
    }
  }
  const std::uint64_t before = data.fingerprint();

  one.mask = "all";
  EXPECT_EQ(values(open(one), 1)[2], 0.0F);
  EXPECT_NE(open(one).fingerprint(), before);
  one.crop = {0, 1, 2, 2};
  EXPECT_EQ(values(open(one), 1)[0], 0.0F);
  one.masked = -7;
  EXPECT_EQ(values(open(one), 1)[1], -7.0F);

  one.crop.clear();
  one.axes = "NWHC";  // (2, 3) as two columns of three rows
  one.mask = "each";
  EXPECT_EQ(values(open(one), 1)[(1 * 2 + 0) * 2], -7.0F);
  one.mask = "turned";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(one)); }, "a.h5", "turned", "3 x 2",
      "rows and columns");
}

TEST_F(FieldData, WeightsAreReadPerSampleAndInvalidOnesRefused) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {3, 2, 2}}, counting(12));
    write_field(file, "labels", {.extents = {3}, .type = H5T_STD_I32LE}, {0, 1, 0});
    write_field(file, "importance", {.extents = {3, 1}}, {0.5, 0, 3});
    write_field(file, "bad", {.extents = {3}}, {1, -1, std::nan("")});
    write_field(file, "two", {.extents = {2}}, {1, 1});
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .samples = SampleUnit::axis,
                    .inputs = {"u"},
                    .target = {"labels"},
                    .weight = "importance",
                    .axes = "NHW"}};
  const FieldDataset data = open(one);
  EXPECT_TRUE(data.layout().weighted);
  EXPECT_EQ(data.weight(0), 0.5F);
  EXPECT_EQ(data.weight(1), 0.0F);
  EXPECT_EQ(data.weight(2), 3.0F);

  one.weight = "bad";
  const FieldDataset bad = open(one);
  EXPECT_EQ(bad.weight(0), 1.0F);
  for (const std::int64_t sample : {1, 2}) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(bad.weight(sample)); }, "a.h5", "bad",
        "finite and not negative");
  }
  one.weight = "two";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(one)); }, "two", "a weight needs one number");
  one.weight = "";
  EXPECT_FALSE(open(one).layout().weighted);
}

TEST_F(FieldData, LabelsThatAreTextBecomeClassesInSortedOrder) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {4, 2, 2}}, counting(16));
    write_texts(file, "fixed", {"storm", "calm", "rain", "calm"}, 8, false, true);
    write_texts(file, "varying", {"storm", "calm", "rain", "calm"}, 0);
    write_texts(file, "long", {std::string(5000, 'x'), "a", "b", "c"}, 0);
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .samples = SampleUnit::axis,
                    .inputs = {"u"},
                    .target = {"fixed"},
                    .axes = "NHW"}};
  one.predicted.classes = 3;
  for (const char* const target : {"fixed", "varying"}) {
    one.target = {target};
    const FieldDataset data = open(one);
    EXPECT_THAT(data.id_names().classes, testing::ElementsAre("calm", "rain", "storm"));
    EXPECT_EQ(label(data, 0), 2);
    EXPECT_EQ(label(data, 1), 0);
    EXPECT_EQ(label(data, 2), 1);
    EXPECT_EQ(label(data, 3), 0);
    std::string bytes;
    append_index(bytes, data.indexes().front());
    EXPECT_EQ(parse_indexes(bytes).front(), data.indexes().front());
  }
  one.class_names = {"storm", "rain", "calm"};
  EXPECT_EQ(label(open(one), 0), 0);

  const auto refused = [&](const std::string& what, const std::string& more) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(one)); }, what, more);
  };
  one.class_names = {"storm", "rain"};
  refused("the label calm is not one of the classes storm, rain", "data.class_names");
  one.class_names = {"storm", "rain", "storm"};
  refused("storm is given twice", "data.class_names");
  one.class_names.clear();
  one.predicted.classes = 2;
  refused("labels have 3 names", "model.classes to at least 3");
  one.predicted.classes = 0;
  one.target = {"long"};
  refused("more than 4096 bytes", "long");
  one.target = {"fixed"};
  one.weight = "varying";
  refused("holds text, but only numbers can be read", "varying");
  one.split_key = "name";
  one.validation_values = {"a.h5"};
  refused("holds text, but only numbers can be read", "varying");
}

TEST_F(FieldData, AnIndexWhoseTextsAreNumberedWronglyIsRefused) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "climate/data", {.extents = {2, 2, 1}}, counting(4));
    write_texts(file, "label", {"calm"}, 0, true);
  }
  const FieldDataset data = open(options());
  for (const bool number : {true, false}) {
    FileIndex index = data.indexes().front();
    StoredField& label = index.units.front().fields.back();
    if (number) {
      label.content[1] = std::byte{1};
    } else {
      label.type.bytes = 2;
      label.content.resize(2);
    }
    expect_error(
        ExitCode::data, [&] { check_index(index); }, "a.h5", "@label");
  }
}

TEST_F(FieldData, AKeySplitsSamplesForTrainingValidationAndTest) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {6, 1, 1}}, counting(6));
    write_field(file, "y", {.extents = {6}, .type = H5T_STD_I32LE}, {0, 1, 0, 1, 0, 1});
    write_field(file, "year", {.extents = {6}}, {2001, 2002, 2003, 2001, 2002, 2004});
    write_texts(file, "part", {"train", "val_a", "train", "test", "val_b", "train"}, 0);
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .samples = SampleUnit::axis,
                    .inputs = {"u"},
                    .target = {"y"},
                    .axes = "NHW"}};
  one.subset = Subset::training;
  const auto samples = [&](Subset subset) {
    one.subset = subset;
    const FieldDataset data = open(one);
    std::vector<float> seen;
    for (std::int64_t i = 0; i < data.size(); ++i)
      seen.push_back(values(data, i)[0]);
    return seen;
  };
  one.split_key = "year";
  one.validation_values = {"2002"};
  one.test_values = {"2004", "2003.0"};
  EXPECT_THAT(samples(Subset::training), testing::ElementsAre(0, 3));
  EXPECT_THAT(samples(Subset::validation), testing::ElementsAre(1, 4));
  one.split_key = "part";
  one.validation_values = {"val_*"};
  one.test_values = {"test"};
  EXPECT_THAT(samples(Subset::training), testing::ElementsAre(0, 2, 5));
  EXPECT_THAT(samples(Subset::validation), testing::ElementsAre(1, 4));

  const auto refused = [&](const std::string& what, const std::string& more) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(samples(Subset::training)); }, what, more);
  };
  one.validation_values = {"vall"};
  refused("no sample has vall as part", "test, train, val_a, val_b");
  one.validation_values = {"*"};
  one.test_values.clear();
  refused("none is left to train on", "part");
  one.test_values = {"test"};
  refused("data.test_values", "data.validation_values also has");
  one.split_key = "year";
  refused("data.validation_values: * is not a number", "year");
  one.split_key = "u@none";
  refused("has no attribute none", "a.h5");
}

TEST_F(FieldData, TheNameOfAFileOrGroupMayBeTheKey) {
  for (int i = 0; i < 4; ++i)
    write_sample(fmt::format("{}_{}.h5", i < 3 ? "early" : "late", i), i, {.extents = {1, 1, 1}});
  FieldOptions part = options();
  part.split_key = "name";
  part.validation_values = {"late_*"};
  part.subset = Subset::validation;
  const FieldDataset validation = open(part);
  ASSERT_EQ(validation.size(), 1);
  EXPECT_EQ(label(validation, 0), 3);
  part.subset = Subset::training;
  const FieldDataset training = open(part);
  EXPECT_EQ(training.size(), 3);
  EXPECT_NE(training.fingerprint(), validation.fingerprint());
}

// Depths of a volume are channels, whatever the order it is stored in.
TEST_F(FieldData, VolumesAreImagesOfDepthTimesChannels) {
  struct Order {
    const char* axes;
    std::vector<hsize_t> extents;
    std::array<int, 4> strides;  // of h, w, d, c
  };
  const std::vector<Order> orders = {{"DHWC", {3, 4, 5, 2}, {10, 2, 40, 1}},
                                     {"CDHW", {2, 3, 4, 5}, {5, 1, 20, 60}},
                                     {"HWD", {4, 5, 3}, {15, 3, 1, 0}}};
  for (const Order& order : orders) {
    {
      const H5 file = make_hdf5(path("a.h5"));
      write_field(file, "climate/data", {.extents = order.extents},
                  counting(count_of(order.extents)));
      write_attribute(file, "label", 1);
    }
    FieldOptions volume = options();
    volume.axes = order.axes;
    const FieldDataset data = open(volume);
    const int channels = order.strides[3] == 0 ? 1 : 2;
    ASSERT_EQ(data.layout().inputs, (Shape{4, 5, 3 * channels})) << order.axes;
    const std::vector<float> sample = values(data, 0);
    std::size_t at = 0;
    for (int h = 0; h < 4; ++h) {
      for (int w = 0; w < 5; ++w) {
        for (int d = 0; d < 3; ++d) {
          for (int c = 0; c < channels; ++c, ++at) {
            const int place = h * order.strides[0] + w * order.strides[1] + d * order.strides[2] +
                              c * order.strides[3];
            ASSERT_EQ(sample[at], static_cast<float>(place)) << order.axes;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::test
