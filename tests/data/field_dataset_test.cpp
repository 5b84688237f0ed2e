// SPDX-License-Identifier: Apache-2.0
// HDF5 files of any kind as samples: what is read, in which order, and what is refused.
#include "data/fields/field_dataset.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "data/fields/file_list.h"
#include "data/fields/storage/index_child.h"
#include "tests/data/edit_shard.h"
#include "tests/data/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

class FieldData : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // A file of one sample: `data` (4, 5, 3) counting from 1000 x label, and the attribute label.
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
    std::int32_t target = -7;
    data.read(index, std::as_writable_bytes(std::span(sample)), {&target, 1});
    if (label != nullptr) *label = target;
    return sample;
  }
  [[nodiscard]] FieldOptions options() const {
    return {.files = {directory_.path()}, .inputs = {"climate/data"}, .target = "@label"};
  }

  const TemporaryDirectory directory_;
};

std::vector<float> floats(const std::vector<double>& from) {
  return {from.begin(), from.end()};
}

TEST_F(FieldData, AFileIsASampleWithItsAttributeAsLabel) {
  for (const int label : {2, 0, 1})
    write_sample(fmt::format("{}.h5", label), label, {.extents = {4, 5, 3}});

  const FieldDataset data = open(options());

  ASSERT_EQ(data.size(), 3);
  EXPECT_EQ(data.layout().inputs, (Shape{4, 5, 3}));
  for (int i = 0; i < 3; ++i) {
    std::int32_t label = -1;
    EXPECT_EQ(values(data, i, &label), floats(counting(60, 1000.0 * i)));
    EXPECT_EQ(label, i) << "files are sorted by name";
  }
}

struct Storage {
  const char* name;
  FieldSpec spec;
};

void PrintTo(const Storage& storage, std::ostream* out) {
  *out << storage.name;
}

class FieldStorage : public FieldData, public testing::WithParamInterface<Storage> {};

TEST_P(FieldStorage, GivesTheValuesThatTheLibraryWrote) {
  FieldSpec spec = GetParam().spec;
  spec.extents = {9, 7, 3};
  const H5 file = make_hdf5(path("a.h5"));
  std::vector<double> written = counting(9 * 7 * 3);
  write_field(file, "climate/data", spec, written);
  write_attribute(file, "label", 1);
  ASSERT_GE(H5Fflush(file, H5F_SCOPE_GLOBAL), 0);

  EXPECT_EQ(values(open(options()), 0), floats(written));
  FieldOptions cropped = options();
  cropped.crop = {2, 1, 5, 4};
  std::vector<float> expected;
  for (int h = 2; h < 7; ++h) {
    for (int w = 1; w < 5; ++w) {
      for (int c = 0; c < 3; ++c)
        expected.push_back(static_cast<float>((h * 7 + w) * 3 + c));
    }
  }
  EXPECT_EQ(values(open(cropped), 0), expected);
}

std::function<void(hid_t)> fletcher() {
  return [](hid_t properties) {
    EXPECT_GE(H5Pset_shuffle(properties), 0);
    EXPECT_GE(H5Pset_deflate(properties, 1), 0);
    EXPECT_GE(H5Pset_fletcher32(properties), 0);
  };
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, FieldStorage,
    testing::Values(
        Storage{"contiguous", {}},
        Storage{"compact",
                {.storage = [](hid_t p) { EXPECT_GE(H5Pset_layout(p, H5D_COMPACT), 0); }}},
        Storage{"chunked", {.chunk = {4, 4, 2}}}, Storage{"one_chunk", {.chunk = {9, 7, 3}}},
        Storage{"deflate", {.chunk = {4, 4, 2}, .storage = deflated(6, false)}},
        Storage{"shuffle_deflate", {.chunk = {2, 7, 3}, .storage = deflated()}},
        Storage{"fletcher32", {.chunk = {3, 3, 3}, .storage = fletcher()}},
        Storage{
            "fletcher32_alone",
            {.chunk = {5, 7, 1}, .storage = [](hid_t p) { EXPECT_GE(H5Pset_fletcher32(p), 0); }}},
        Storage{"big_endian_shuffled",
                {.type = H5T_IEEE_F64BE, .chunk = {9, 2, 3}, .storage = deflated()}}),
    [](const auto& info) { return info.param.name; });

TEST_F(FieldData, ReadsEveryTypeOfNumber) {
  const H5 half(H5Tcopy(H5T_IEEE_F32LE), H5Tclose), brain(H5Tcopy(H5T_IEEE_F32BE), H5Tclose);
  ASSERT_GE(H5Tset_fields(half, 15, 10, 5, 0, 10), 0);
  ASSERT_GE(H5Tset_size(half, 2), 0);
  ASSERT_GE(H5Tset_ebias(half, 15), 0);
  ASSERT_GE(H5Tset_fields(brain, 15, 7, 8, 0, 7), 0);
  ASSERT_GE(H5Tset_size(brain, 2), 0);
  const std::vector<double> written = counting(24, 1);
  for (const hid_t type :
       {H5T_STD_I8LE, H5T_STD_U8BE, H5T_STD_I16BE, H5T_STD_U16LE, H5T_STD_I32BE, H5T_STD_U32BE,
        H5T_STD_I64LE, H5T_STD_U64BE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, hid_t{half}, hid_t{brain}}) {
    {
      const H5 file = make_hdf5(path("a.h5"));
      write_field(file, "climate/data", {.extents = {2, 4, 3}, .type = type}, written);
      write_attribute(file, "label", 3, H5T_STD_U16BE);
    }
    std::int32_t label = -1;
    EXPECT_EQ(values(open(options()), 0, &label), floats(written));
    EXPECT_EQ(label, 3);
  }
}

TEST_F(FieldData, UnsignedShortsAreBfloat16WhereTheConfigSaysSo) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "climate/data", {.extents = {1, 2, 1}, .type = H5T_STD_U16LE},
                {0x3f80, 0xc040});
    write_attribute(file, "label", 0);
  }
  FieldOptions brain = options();
  brain.bfloat16 = true;

  EXPECT_EQ(values(open(brain), 0), (std::vector<float>{1.0F, -3.0F}));
}

TEST_F(FieldData, AxesChannelsAndSeveralInputsAreOneImage) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "wind", {.extents = {3, 4, 5}}, counting(60));  // (C, H, W)
    write_field(file, "rain", {.extents = {2, 4, 5}, .chunk = {1, 4, 5}, .storage = deflated()},
                counting(40, 100));
    write_field(file, "storm", {.extents = {1}, .type = H5T_STD_U8LE}, {1});
  }
  FieldOptions options{.files = {path("a.h5")},
                       .inputs = {"wind", "rain"},
                       .target = "storm",
                       .axes = "CHW",
                       .channels = {4, 0, 2}};

  std::int32_t label = 0;
  const FieldDataset data = open(options);
  const std::vector<float> sample = values(data, 0, &label);

  ASSERT_EQ(data.layout().inputs, (Shape{4, 5, 3}));
  EXPECT_EQ(label, 1);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto pixel = static_cast<float>(i);
    EXPECT_EQ(sample[3 * i], pixel + 120) << "the second of rain";
    EXPECT_EQ(sample[3 * i + 1], pixel);
    EXPECT_EQ(sample[3 * i + 2], pixel + 40);
  }
}

TEST_F(FieldData, SamplesLieAlongAnAxisAndShareChunksThatAreDecodedOnce) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {10, 3, 4}, .chunk = {5, 3, 4}, .storage = deflated()},
                counting(120));
    write_field(file, "y",
                {.extents = {10}, .type = H5T_STD_I64LE, .chunk = {4}, .storage = deflated()},
                {0, 1, 2, 0, 1, 2, 0, 1, 2, 0});
  }
  const FieldDataset data = open({.files = {path("a.h5")},
                                  .samples = SampleUnit::axis,
                                  .inputs = {"x"},
                                  .target = "y",
                                  .axes = "NHW"});
  ASSERT_EQ(data.size(), 10);

  std::vector<std::jthread> threads;
  std::array<bool, 4> right{};
  for (std::size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      right[t] = true;
      for (int i = 0; i < 10; ++i) {
        std::int32_t label = -1;
        right[t] =
            right[t] && values(data, i, &label) == floats(counting(12, 12.0 * i)) && label == i % 3;
      }
    });
  }
  threads.clear();

  EXPECT_THAT(right, testing::Each(true));
  EXPECT_EQ(data.reader().cache().decoded(), 2U + 3U) << "chunks of x and of y";
}

TEST_F(FieldData, WindowsOfStepsAreSamplesWithTheLabelOfALaterStep) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "flow", {.extents = {2, 8, 2, 2}}, counting(64));  // (N, T, H, W)
    write_field(file, "event", {.extents = {2, 8}, .type = H5T_STD_I32LE}, counting(16));
  }
  const FieldDataset data = open({.files = {path("a.h5")},
                                  .samples = SampleUnit::axis,
                                  .inputs = {"flow"},
                                  .target = "event",
                                  .axes = "NTHW",
                                  .window = 3,
                                  .window_stride = 2,
                                  .steps_ahead = 1});

  ASSERT_EQ(data.size(), 2 * 3) << "starts 0, 1 and 2: the last label is of step 2 + 4 + 1";
  std::int32_t label = 0;
  const std::vector<float> sample = values(data, 4, &label);

  EXPECT_EQ(label, 8 + 1 + 4 + 1);
  // Pixel 0 at steps 1, 3 and 5 of the second trajectory.
  EXPECT_EQ(std::vector<float>(sample.begin(), sample.begin() + 3),
            (std::vector<float>{32 + 4, 32 + 12, 32 + 20}));
}

TEST_F(FieldData, GroupsAreSamples) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    for (int i = 0; i < 3; ++i) {
      const std::string group = fmt::format("event_{}", i);
      write_field(file, group + "/image", {.extents = {2, 2}}, counting(4, 10.0 * i));
      const H5 opened(H5Gopen2(file, group.c_str(), H5P_DEFAULT), H5Gclose);
      write_attribute(opened, "kind", 2 - i);
    }
  }
  const FieldDataset data = open({.files = {path("a.h5")},
                                  .samples = SampleUnit::group,
                                  .inputs = {"image"},
                                  .target = "@kind",
                                  .axes = "HW"});

  ASSERT_EQ(data.size(), 3);
  std::int32_t label = -1;
  EXPECT_EQ(values(data, 1, &label), floats(counting(4, 10)));
  EXPECT_EQ(label, 1);
}

TEST_F(FieldData, ScalesEveryChannelByItsOwnNumbers) {
  write_sample("a.h5", 0, {.extents = {4, 5, 3}});
  FieldOptions scaled = options();
  scaled.scale = {.subtract = {0, 10, 20}, .multiply = {1, 0.5F, 0.25F}};

  const std::vector<float> sample = values(open(scaled), 0);

  for (std::size_t i = 0; i < sample.size(); ++i) {
    const std::array<float, 3> expected{static_cast<float>(i), (static_cast<float>(i) - 10) / 2,
                                        (static_cast<float>(i) - 20) / 4};
    EXPECT_EQ(sample[i], expected[i % 3]);
  }
}

TEST_F(FieldData, NotFiniteInputsAreRefusedOrMadeZeroAndCounted) {
  std::vector<double> holed = counting(60);
  holed[7] = std::nan("");
  holed[31] = -std::numeric_limits<double>::infinity();
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "climate/data", {.extents = {4, 5, 3}}, holed);
    write_attribute(file, "label", 0);
  }
  FieldOptions zero = options();
  zero.not_finite = NotFinite::zero;

  expect_error(
      ExitCode::data, [&] { static_cast<void>(values(open(options()), 0)); }, "a.h5", "NaN",
      "data.not_finite");
  const FieldDataset data = open(zero);
  holed[7] = holed[31] = 0;
  EXPECT_EQ(values(data, 0), floats(holed));
  EXPECT_THAT(data.shortcomings(), HasSubstr("2 NaN or infinite inputs"));
}

// Three samples of (2, 3, 2) along N, NaN where the mask of sample 1 is 0.
TEST_F(FieldData, WhereAMaskIsZeroInputsAreNotLookedAtAndBecomeZeroAfterScaling) {
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
  FieldOptions one{.files = {path("a.h5")},
                   .samples = SampleUnit::axis,
                   .inputs = {"u"},
                   .target = "labels",
                   .mask = "each",
                   .axes = "NHWC"};
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

TEST_F(FieldData, WeightsAreReadPerSampleAndRefusedWhereTheyAreNone) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {3, 2, 2}}, counting(12));
    write_field(file, "labels", {.extents = {3}, .type = H5T_STD_I32LE}, {0, 1, 0});
    write_field(file, "importance", {.extents = {3, 1}}, {0.5, 0, 3});
    write_field(file, "bad", {.extents = {3}}, {1, -1, std::nan("")});
    write_field(file, "two", {.extents = {2}}, {1, 1});
  }
  FieldOptions one{.files = {path("a.h5")},
                   .samples = SampleUnit::axis,
                   .inputs = {"u"},
                   .target = "labels",
                   .weight = "importance",
                   .axes = "NHW"};
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
      ExitCode::data, [&] { static_cast<void>(open(one)); }, "two", "a weight is one number");
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
  FieldOptions one{.files = {path("a.h5")},
                   .samples = SampleUnit::axis,
                   .inputs = {"u"},
                   .target = "fixed",
                   .axes = "NHW",
                   .classes = 3};
  for (const char* const target : {"fixed", "varying"}) {
    one.target = target;
    const FieldDataset data = open(one);
    EXPECT_THAT(data.id_names().classes, testing::ElementsAre("calm", "rain", "storm"));
    EXPECT_EQ(data.label(0), 2);
    EXPECT_EQ(data.label(1), 0);
    EXPECT_EQ(data.label(2), 1);
    EXPECT_EQ(data.label(3), 0);
    std::string bytes;
    append_index(bytes, data.indexes().front());
    EXPECT_EQ(parse_indexes(bytes).front(), data.indexes().front());
  }
  one.class_names = {"storm", "rain", "calm"};
  EXPECT_EQ(open(one).label(0), 0);

  const auto refused = [&](const std::string& what, const std::string& more) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(one)); }, what, more);
  };
  one.class_names = {"storm", "rain"};
  refused("the label calm is none of the classes storm, rain", "data.class_names");
  one.class_names = {"storm", "rain", "storm"};
  refused("storm stands there twice", "data.class_names");
  one.class_names.clear();
  one.classes = 2;
  refused("labels have 3 names", "model.classes to at least 3");
  one.classes = 0;
  one.target = "long";
  refused("more than 4096 bytes", "long");
  one.target = "fixed";
  one.weight = "varying";
  refused("holds text, and only numbers are read", "varying");
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

TEST_F(FieldData, AKeyTellsSamplesForTrainingValidationAndTestApart) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "u", {.extents = {6, 1, 1}}, counting(6));
    write_field(file, "y", {.extents = {6}, .type = H5T_STD_I32LE}, {0, 1, 0, 1, 0, 1});
    write_field(file, "year", {.extents = {6}}, {2001, 2002, 2003, 2001, 2002, 2004});
    write_texts(file, "part", {"train", "val_a", "train", "test", "val_b", "train"}, 0);
  }
  FieldOptions one{.files = {path("a.h5")},
                   .samples = SampleUnit::axis,
                   .inputs = {"u"},
                   .target = "y",
                   .axes = "NHW",
                   .subset = Subset::training};
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
  refused("data.test_values", "data.validation_values has too");
  one.split_key = "year";
  refused("data.validation_values: * is no number", "year");
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
  EXPECT_EQ(validation.label(0), 3);
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

TEST_F(FieldData, AFractionIsHeldBackForValidationAndNobodySeesItTwice) {
  for (int i = 0; i < 10; ++i)
    write_sample(fmt::format("{}.h5", i), i, {.extents = {1, 1, 1}});
  FieldOptions part = options();
  part.validation_fraction = 0.3;
  std::vector<float> seen;
  for (const Subset subset : {Subset::training, Subset::validation}) {
    part.subset = subset;
    const FieldDataset data = open(part);
    EXPECT_EQ(data.size(), subset == Subset::training ? 7 : 3);
    for (std::int64_t i = 0; i < data.size(); ++i)
      seen.push_back(values(data, i)[0]);
  }

  std::ranges::sort(seen);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_EQ(seen[i], 1000.0F * static_cast<float>(i));
}

TEST_F(FieldData, TheFingerprintIsOfTheDataAndNotOfItsPlace) {
  write_sample("a.h5", 1, {.extents = {4, 5, 3}});
  const std::uint64_t before = open(options()).fingerprint();
  std::filesystem::create_directories(path("elsewhere"));
  std::filesystem::rename(path("a.h5"), path("elsewhere/b.h5"));
  EXPECT_EQ(open(options()).fingerprint(), before);

  write_sample("elsewhere/b.h5", 2, {.extents = {4, 5, 3}});
  EXPECT_NE(open(options()).fingerprint(), before);
}

}  // namespace
}  // namespace trireme::test
