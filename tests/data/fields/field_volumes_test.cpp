// SPDX-License-Identifier: Apache-2.0
// Samples that stay volumes (D, H, W, C), and their way into batches.
#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>

#include "data/fields/statistics.h"
#include "data/loader/loader.h"
#include "data/preview.h"
#include "runtime/device/device.h"
#include "tests/data/fields/field_data.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class VolumeData : public FieldData {
 protected:
  // One volume per file and a number beside it, like CosmoFlow's files.
  void write_volumes(int count) const {
    for (int i = 0; i < count; ++i) {
      const H5 file = make_hdf5(path(fmt::format("{:02}.h5", i)));
      write_field(file, "x", {.extents = {4, 3, 5, 2}, .type = H5T_STD_I16LE},
                  counting(120, 100.0 * i));
      write_field(file, "y", {.extents = {3}}, {0.25 * i, -1.0 * i, 1e-3});
    }
  }
  [[nodiscard]] FieldOptions volumes() const {
    FieldOptions options{{.files = {directory_.path()}, .inputs = {"x"}, .target = {"y"}}};
    options.axes = "DHWC";
    options.depth = any_depth;
    options.predicted = {TargetKind::values, Shape{}, 0};
    return options;
  }
};

struct Stored {
  const char* name;
  const char* axes;
  FieldSpec spec;
};

void PrintTo(const Stored& stored, std::ostream* out) {
  *out << stored.name;
}

class StoredVolume : public FieldData, public testing::WithParamInterface<Stored> {};

// Values name their place: 1000 d + 100 h + 10 w + c.
TEST_P(StoredVolume, IsReadAsDepthHeightWidthChannels) {
  const std::string axes = GetParam().axes;
  FieldSpec spec = GetParam().spec;
  const auto extent = [](char axis) -> hsize_t {
    return axis == 'D' ? 6 : axis == 'H' ? 3 : axis == 'W' ? 5 : axis == 'C' ? 2 : 4;
  };
  for (const char axis : axes)
    spec.extents.push_back(extent(axis));
  std::vector<double> stored(count_of(spec.extents));
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::size_t rest = i;
    for (std::size_t k = axes.size(); k-- > 0; rest /= extent(axes[k])) {
      const auto at = static_cast<double>(rest % extent(axes[k]));
      stored[i] += at * (axes[k] == 'D'   ? 1000
                         : axes[k] == 'H' ? 100
                         : axes[k] == 'W' ? 10
                         : axes[k] == 'C' ? 1
                                          : 6000);
    }
  }
  const bool along = axes.find('N') != axes.npos;
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", spec, stored);
    write_field(file, "y", {.extents = {along ? 4U : 1U}, .type = H5T_STD_I32LE}, {1, 1, 1, 1});
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .samples = along ? SampleUnit::axis : SampleUnit::file,
                    .inputs = {"x"},
                    .target = {"y"},
                    .axes = axes}};
  one.depth = 6;
  const int channels = axes.find('C') == axes.npos ? 1 : 2, number = along ? 3 : 0;
  const auto expect = [&](const std::array<int, 6>& part) {
    const auto [front, top, left, depth, height, width] = part;
    const FieldDataset data = open(one);
    ASSERT_EQ(data.layout().inputs, (Shape{depth, height, width, channels}));
    const std::vector<float> sample = values(data, number);
    std::size_t at = 0;
    for (int d = front; d < front + depth; ++d) {
      for (int h = top; h < top + height; ++h) {
        for (int w = left; w < left + width; ++w) {
          for (int c = 0; c < channels; ++c)
            ASSERT_EQ(sample[at++], 6000 * number + 1000 * d + 100 * h + 10 * w + c);
        }
      }
    }
  };
  expect({0, 0, 0, 6, 3, 5});
  one.crop = {1, 0, 2, 4, 2, 3};
  one.depth = 4;
  expect({1, 0, 2, 4, 2, 3});
  one.crop = {2, 1, 0, 2, 1, 5};  // begins with a chunk of depth 2
  one.depth = 2;
  expect({2, 1, 0, 2, 1, 5});
}

INSTANTIATE_TEST_SUITE_P(
    Orders, StoredVolume,
    testing::Values(
        Stored{"as_it_is", "DHWC", {}}, Stored{"short_integers", "DHWC", {.type = H5T_STD_I16BE}},
        Stored{"without_channels", "DHW", {.type = H5T_STD_I16LE}},
        Stored{"along_an_axis", "NDHWC", {.type = H5T_IEEE_F64LE}},
        Stored{"channels_first", "CDHW", {}}, Stored{"depth_last", "HWD", {.type = H5T_STD_U16LE}},
        Stored{"turned", "CWHD", {.chunk = {1, 2, 3, 2}, .storage = deflated()}},
        Stored{"slices_in_chunks",
               "DHWC",
               {.type = H5T_STD_I16LE, .chunk = {2, 3, 5, 2}, .storage = deflated()}},
        Stored{"chunks", "NDHWC", {.chunk = {2, 4, 2, 2, 2}, .storage = deflated(6, false)}}),
    [](const auto& info) { return info.param.name; });

// Steps become channels, while depths stay.
TEST_F(FieldData, WindowsOfVolumes) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "flow", {.extents = {5, 2, 2, 3}}, counting(60));  // (T, D, H, W)
    write_field(file, "event", {.extents = {5}, .type = H5T_STD_I32LE}, counting(5));
  }
  FieldOptions windows{{.files = {path("a.h5")},
                        .inputs = {"flow"},
                        .target = {"event"},
                        .axes = "TDHW",
                        .window = 2,
                        .steps_ahead = 1}};
  windows.depth = 2;
  const FieldDataset data = open(windows);
  ASSERT_EQ(data.size(), 3);
  ASSERT_EQ(data.layout().inputs, (Shape{2, 2, 3, 2}));
  std::int32_t label = 0;
  const std::vector<float> sample = values(data, 1, &label);
  EXPECT_EQ(label, 3);
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(sample[2 * i], static_cast<float>(12 + i));
    EXPECT_EQ(sample[2 * i + 1], static_cast<float>(24 + i));
  }
}

TEST_F(FieldData, MasksOfVolumesLeaveOutVoxels) {
  std::vector<double> masks(24, 1);
  masks[0] = masks[17] = 0;
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {2, 3, 4, 2}}, counting(48, 1));
    write_field(file, "y", {.extents = {1}, .type = H5T_STD_I32LE}, {0});
    write_field(file, "inside", {.extents = {2, 3, 4}, .type = H5T_STD_U8LE}, masks);
    write_field(file, "flat", {.extents = {3, 4}}, counting(12));
  }
  FieldOptions one{{.files = {path("a.h5")},
                    .inputs = {"x"},
                    .target = {"y"},
                    .mask = "inside",
                    .axes = "DHWC"}};
  one.depth = any_depth;
  const std::vector<float> sample = values(open(one), 0);
  for (std::size_t i = 0; i < 48; ++i)
    EXPECT_EQ(sample[i], masks[i / 2] == 0 ? 0.0F : static_cast<float>(i + 1)) << i;
  one.mask = "flat";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open(one)); }, "a.h5", "flat", "3 x 4",
      "slices, rows and columns");
}

TEST_F(VolumeData, RefusesVolumesOfAnotherSizeThanTheModels) {
  write_volumes(2);
  FieldOptions one = volumes();
  one.depth = one.height = one.width = 8;
  one.channel_count = 4;
  const auto refused = [&](auto... what) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(one)); }, what...);
  };
  refused("00.h5", "4 x 3 x 5 with 2 channels", "reads 8 x 8 x 8 with 4", "model.channels: 2");
  one = volumes();
  one.crop = {2, 0, 0, 3, 3, 5};
  refused("data.crop: 3 slices from 2 do not fit 4");
  one.crop = {0, 1, 0, 3, 3, 5};
  refused("3 rows from 1");
  one = volumes();
  one.axes = "HWC";
  one.depth = 0;
  refused("has 4 axes", "data.axes: HWC");
}

TEST_F(VolumeData, TransformComesBeforeScalingAndStatisticsFollowIt) {
  {
    const H5 file = make_hdf5(path("a.h5"));
    write_field(file, "x", {.extents = {1, 1, 2, 2}, .type = H5T_STD_I16LE}, {0, 9, 32767, 1});
    write_field(file, "y", {.extents = {3}}, {0, 0, 0});
  }
  FieldOptions one = volumes();
  one.transform = InputTransform::log1p;
  const auto logarithm = [](double value) { return static_cast<float>(std::log1p(value)); };
  EXPECT_THAT(values(open(one), 0),
              testing::ElementsAre(0.0F, logarithm(9), logarithm(32767), logarithm(1)));
  const FieldDataset plain = open(one);
  const std::vector<ChannelStatistics> found = compute_statistics(plain, 1, [](std::uint64_t) {});
  EXPECT_NEAR(found[0].mean, std::log1p(32767.0) / 2, 1e-6);
  one.scale = {.subtract = {1, 2}, .multiply = {2, 4}};
  EXPECT_EQ(values(open(one), 0)[1], (logarithm(9) - 2) * 4);

  // A file of statistics says what it is of.
  FieldSource scaled = one;
  scaled.scaling = Scaling::mean_std;
  scaled.statistics = path("statistics.json");
  write_statistics(scaled.statistics, plain, found);
  EXPECT_EQ(load_scale(scaled).subtract.size(), 2U);
  scaled.transform = InputTransform::none;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(load_scale(scaled)); }, "statistics.json",
      "data.transform: log1p");
  FieldSource tiny = one;
  tiny.transform = InputTransform::none;
  tiny.scaling = Scaling::mean_std;
  tiny.mean = {0};
  tiny.std = {1e-40};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(load_scale(tiny)); }, "data.std", "1e-40");

  {
    const H5 file = change_hdf5(path("a.h5"));
    write_field(file, "below", {.extents = {1, 1, 1, 2}}, {0.5, -1});
  }
  one.scale = {};
  one.inputs = {"below"};
  expect_error(
      ExitCode::data, [&] { static_cast<void>(values(open(one), 0)); }, "a.h5", "log1p of -1");
}

TEST_F(VolumeData, PicturesShowTheMiddleSlice) {
  write_volumes(2);
  const std::vector<std::string> written = write_previews(open(volumes()), path("shown"), 5);
  ASSERT_EQ(written.size(), 2U);
  EXPECT_THAT(written[0], testing::EndsWith("sample_000000.png"));
}

struct Row {
  std::int64_t sample;
  std::vector<float> inputs, targets;
  friend bool operator==(const Row&, const Row&) = default;
};

// The rows of some steps, by all data ranks in turn, which starts anew at `from`.
std::vector<Row> rows_of_steps(const Dataset& data, std::int64_t ranks, std::int64_t from,
                               std::int64_t to) {
  const auto device = Device::create(DeviceType::cpu);
  const auto copy = device->make_stream(StreamKind::copy),
             compute = device->make_stream(StreamKind::compute);
  const Sampler sampler({.samples = data.size(),
                         .global_batch = 4,
                         .seed = 3,
                         .shuffle = true,
                         .last_batch = LastBatch::drop});
  std::vector<std::unique_ptr<Loader>> loaders;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    loaders.push_back(std::make_unique<Loader>(*device, data,
                                               BatchPlan::training(sampler, 1, rank, ranks, from),
                                               LoaderOptions{.workers = 2, .prefetch = 3}));
  std::vector<Row> rows;
  for (std::int64_t batch = 0; batch < (to - from) * 4; ++batch) {
    const Batch& got =
        loaders[static_cast<std::size_t>(batch % 4 * ranks / 4)]->next(*copy, *compute);
    EXPECT_EQ(got.inputs.shape, (Shape{1, 4, 3, 5, 2}));
    EXPECT_EQ(got.targets.shape, (Shape{1, 3}));
    const auto* const inputs = got.inputs.as<float>();
    const auto* const targets = got.targets.as<float>();
    rows.push_back({got.sample_ids.as<std::int64_t>()[0],
                    {inputs, inputs + got.inputs.count()},
                    {targets, targets + got.targets.count()}});
  }
  return rows;
}

TEST_F(VolumeData, BatchesAreEqualOnEveryNumberOfRanksAndAfterResuming) {
  write_volumes(11);
  FieldOptions one = volumes();
  one.target_mean = {1, -5, 0};
  one.target_std = {2, 0.5, 1};
  const FieldDataset data = open(one);
  const std::vector<Row> alone = rows_of_steps(data, 1, 0, 5);
  for (const Row& row : alone) {
    const auto i = static_cast<double>(row.sample);
    EXPECT_EQ(row.inputs, floats(counting(120, 100 * i)));
    EXPECT_EQ(row.targets, (std::vector<float>{static_cast<float>((0.25 * i - 1) / 2),
                                               static_cast<float>((-i + 5) / 0.5), 1e-3F}));
  }
  for (const std::int64_t ranks : {2, 4}) {
    EXPECT_EQ(rows_of_steps(data, ranks, 0, 5), alone) << ranks;
    EXPECT_EQ(rows_of_steps(data, ranks, 3, 5), (std::vector<Row>{alone.begin() + 12, alone.end()}))
        << ranks;
  }
}

TEST_F(VolumeData, PaddingRowsHaveNoTarget) {
  write_volumes(3);
  const FieldDataset data = open(volumes());
  const auto device = Device::create(DeviceType::cpu);
  const auto copy = device->make_stream(StreamKind::copy),
             compute = device->make_stream(StreamKind::compute);
  Loader loader(*device, data, BatchPlan::evaluation(data.size(), 4, 0, 1), {});
  const Batch& batch = loader.next(*copy, *compute);
  EXPECT_EQ(batch.targets.as<float>()[7], -2.0F);
  for (int i = 9; i < 12; ++i)
    EXPECT_TRUE(std::isnan(batch.targets.as<float>()[i]));
}

}  // namespace
}  // namespace trireme::test
