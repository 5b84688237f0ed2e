// SPDX-License-Identifier: Apache-2.0
// HDF5 files of any kind as samples: values, order, and refusals.
#include "data/fields/field_dataset.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "data/shard/data_file.h"
#include "tests/data/edit_shard.h"
#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

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

std::function<void(hid_t)> szipped(unsigned options, unsigned block) {
  return [=](hid_t properties) { EXPECT_GE(H5Pset_szip(properties, options, block), 0); };
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
        // A row fills a block, else the chunk does; its last block may be cut.
        Storage{"szip", {.chunk = {9, 7, 3}, .storage = szipped(H5_SZIP_NN_OPTION_MASK, 8)}},
        Storage{"szip_of_shorts",
                {.type = H5T_STD_I16BE,
                 .chunk = {9, 7, 3},
                 .storage = szipped(H5_SZIP_EC_OPTION_MASK, 16)}},
        Storage{"szip_of_doubles",
                {.type = H5T_IEEE_F64BE,
                 .chunk = {4, 4, 3},
                 .storage = szipped(H5_SZIP_EC_OPTION_MASK, 16)}},
        Storage{"szip_of_bytes",
                {.type = H5T_STD_U8LE,
                 .chunk = {4, 7, 3},
                 .storage = szipped(H5_SZIP_NN_OPTION_MASK, 2)}},
        Storage{"szip_of_integers",
                {.type = H5T_STD_U32LE,
                 .chunk = {4, 7, 3},
                 .storage = szipped(H5_SZIP_NN_OPTION_MASK, 2)}},
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
  FieldOptions options{{.files = {path("a.h5")},
                        .inputs = {"wind", "rain"},
                        .target = {"storm"},
                        .axes = "CHW",
                        .input_channels = {4, 0, 2}}};

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
  const FieldDataset data = open({{.files = {path("a.h5")},
                                   .samples = SampleUnit::axis,
                                   .inputs = {"x"},
                                   .target = {"y"},
                                   .axes = "NHW"}});
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
  EXPECT_EQ(data.decoded_chunks().count, 2U + 3U) << "chunks of x and of y";
  EXPECT_EQ(data.decoded_chunks().again, 0U);
}

TEST_F(FieldData, ChunksThatAreDecodedAgainAreCountedWithTheMemoryThatKeepsThem) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {6, 4, 4}, .chunk = {2, 4, 4}, .storage = deflated()},
                counting(6 * 16));
    write_field(file, "y", {.extents = {6}, .type = H5T_STD_I32LE}, {0, 1, 2, 0, 1, 2});
  }
  FieldOptions of_file{{.files = {path("a.h5")},
                        .samples = SampleUnit::axis,
                        .inputs = {"x"},
                        .target = {"y"},
                        .axes = "NHW",
                        .cache_megabytes = 130e-6}};  // one chunk
  const FieldDataset data = open(of_file);

  for (const int i : {0, 1, 2, 4, 0, 3})  // chunks 0, 0, 1, 2, 0, 1
    EXPECT_EQ(values(data, i), floats(counting(16, 16.0 * i)));

  EXPECT_EQ(data.decoded_chunks().count, 5U);
  EXPECT_EQ(data.decoded_chunks().again, 2U);
  EXPECT_EQ(data.decoded_chunks().bytes, 6 * 16 * sizeof(float));
}

TEST_F(FieldData, WindowsOfStepsAreSamplesWithTheLabelOfALaterStep) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "flow", {.extents = {2, 8, 2, 2}}, counting(64));  // (N, T, H, W)
    write_field(file, "event", {.extents = {2, 8}, .type = H5T_STD_I32LE}, counting(16));
  }
  const FieldDataset data = open({{.files = {path("a.h5")},
                                   .samples = SampleUnit::axis,
                                   .inputs = {"flow"},
                                   .target = {"event"},
                                   .axes = "NTHW",
                                   .window = 3,
                                   .window_stride = 2,
                                   .steps_ahead = 1}});

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
  const FieldDataset data = open({{.files = {path("a.h5")},
                                   .samples = SampleUnit::group,
                                   .inputs = {"image"},
                                   .target = {"@kind"},
                                   .axes = "HW"}});

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
  EXPECT_THAT(data.shortcomings(), HasSubstr("2 missing, NaN or infinite inputs"));
}

TEST_F(FieldData, AFractionIsOnlyForValidation) {
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

// Ends this process, with 0 if all samples were read and file descriptors were left.
void read_all_with_64_descriptors(std::span<const FieldDataset* const> readers) {
  const rlimit few{64, 64};
  if (::setrlimit(RLIMIT_NOFILE, &few) != 0) std::exit(2);
  std::vector<std::byte> sample(static_cast<std::size_t>(readers[0]->layout().inputs.count()) * 4);
  for (std::int64_t i = 0; i < readers[0]->size(); ++i) {
    for (const FieldDataset* const reader : readers) {
      std::int32_t label = -1;
      reader->read(i, sample, {&label, 1});
      if (label != i) std::exit(3);
    }
  }
  for (int others = 0; others < 24; ++others) {
    if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) std::exit(4);
  }
  std::exit(0);
}

TEST_F(FieldData, ReadersTogetherKeepNoMoreFilesOpenThanAProcessMay) {
  std::vector<std::shared_ptr<LocalCopy>> copies;
  for (int i = 0; i < 90; ++i) {
    const std::string file = write_sample(fmt::format("{:02}.h5", i), i, {.extents = {2, 2, 1}});
    copies.push_back(LocalCopy::of(file));
    if (i % 2 == 0) copies.back()->publish(file);  // needs its own descriptor
  }
  const FieldDataset a = open(options()), b = open(options()), c = open(options());

  EXPECT_EXIT(read_all_with_64_descriptors(std::array{&a, &b, &c}), testing::ExitedWithCode(0), "");
}

TEST_F(FieldData, TheFingerprintDoesNotDependOnThePlace) {
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
