// SPDX-License-Identifier: Apache-2.0
// Evaluation of whole samples from overlapping windows.
#include <gmock/gmock.h>

#include <cmath>

#include "launch/engine/stitcher.h"
#include "tests/data/fields/field_data.h"

namespace trireme::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(WindowStarts, SpreadEvenlyOverAnExtentAndReachItsEnd) {
  EXPECT_THAT(window_starts(8, 8, 0.5), ElementsAre(0));
  EXPECT_THAT(window_starts(9, 8, 0.5), ElementsAre(0, 1));
  EXPECT_THAT(window_starts(16, 8, 0.5), ElementsAre(0, 4, 8));
  EXPECT_THAT(window_starts(19, 8, 0.5), ElementsAre(0, 4, 7, 11));
  EXPECT_THAT(window_starts(17, 8, 0), ElementsAre(0, 5, 9));
  EXPECT_THAT(window_starts(4, 1, 0.5), ElementsAre(0, 1, 2, 3));  // steps of at least one
}

class Stitch : public FieldData {
 protected:
  static constexpr std::int64_t classes = 3, padded = 4;  // a column of padding
  static constexpr Voxel window{4, 4, 5};

  // Volumes that differ in size; classes of voxels count up.
  void write_volumes() const {
    for (hsize_t i = 0; i < 3; ++i) {
      const H5 file = make_hdf5(path(fmt::format("{}.h5", i)));
      const std::vector<hsize_t> extents{4 + 3 * i, 6, 5 + i};
      std::vector<hsize_t> with_channels = extents;
      with_channels.push_back(1);
      std::vector<double> parts = counting(count_of(extents), 0);
      for (double& part : parts)
        part = std::fmod(part, classes);
      write_field(file, "x", {.extents = with_channels}, counting(count_of(extents), 0));
      write_field(file, "y", {.extents = extents, .type = H5T_STD_U8LE}, parts);
    }
  }
  [[nodiscard]] FieldOptions volumes() const {
    FieldOptions options{{.files = {directory_.path()}, .inputs = {"x"}, .target = {"y"}}};
    options.axes = "DHWC";
    options.patches = true;
    options.depth = window[0];
    options.height = window[1];
    options.width = window[2];
    options.channel_count = 1;
    options.predicted = {TargetKind::pixels, Shape{window[0], window[1], window[2]}, classes};
    return options;
  }
  // Of a voxel, whatever window it is seen in: largest for the class of `wrong` voxels in 7.
  static float logit(std::int64_t voxel, std::int64_t c) {
    const std::int64_t best = voxel % 7 == 0 ? (voxel + 1) % classes : voxel % classes;
    return c == best ? 2.0F : 0.25F * static_cast<float>((voxel + c) % 4);
  }

  // All windows of a rank in micro-batches of 2, as a model would compute them.
  static std::vector<Stitcher::Row> stitched(const SlidingWindows& windows, int rank,
                                             const HeadInfo& head, Device& device, Stream& stream) {
    Stitcher stitcher(windows, device, head, rank, {});
    const auto own = windows.of_rank(rank);
    const std::int64_t pixels = window[0] * window[1] * window[2];
    for (std::size_t first = 0; first < own.size(); first += 2) {
      std::vector<float> logits(static_cast<std::size_t>(2 * pixels * padded), 99.0F);
      for (std::size_t row = 0; row < 2 && first + row < own.size(); ++row) {
        const SampleWindow& at = own[first + row];
        const auto extents = windows.whole().extents_of(at.sample);
        for (std::int64_t i = 0; i < pixels * classes; ++i) {
          const std::int64_t c = i % classes, pixel = i / classes, w = pixel % window[2],
                             h = pixel / window[2] % window[1], d = pixel / window[2] / window[1];
          const std::int64_t voxel =
              ((at.origin[0] + d) * extents[1] + at.origin[1] + h) * extents[2] + at.origin[2] + w;
          logits[row * static_cast<std::size_t>(pixels * padded) +
                 static_cast<std::size_t>(pixel * padded + c)] = logit(voxel, c);
        }
      }
      stitcher.take(stream, {reinterpret_cast<std::byte*>(logits.data()), DType::f32,
                             Shape{2 * pixels, padded}});
    }
    return stitcher.finish();
  }
};

TEST_F(Stitch, GivesEachVoxelTheMeanOfItsWindowsAndEachSampleItsMetrics) {
  write_volumes();
  const FieldOptions options = volumes();
  const FieldDataset whole(scan_in_children(expand_files(options.files), scan_request(options), 1),
                           options);
  const auto device = Device::create(DeviceType::cpu);
  const auto stream = device->make_stream(StreamKind::compute);
  const std::int64_t pixels = window[0] * window[1] * window[2];
  HeadInfo head{.targets = 2 * pixels, .classes = classes, .kind = TargetKind::pixels};
  head.logits.shape = {2 * pixels, padded};

  const SlidingWindows all(whole, 3, 0.5, 2, 1);
  const auto rows = stitched(all, 0, head, *device, *stream);

  ASSERT_EQ(rows.size(), 3U);
  for (const Stitcher::Row& row : rows) {
    const auto extents = whole.extents_of(row.sample);
    const std::int64_t voxels = extents[0] * extents[1] * extents[2];
    double loss = 0, right = 0;
    std::array<double, 3> both{}, predicted{}, actual{};
    for (std::int64_t v = 0; v < voxels; ++v) {
      double sum = 0;
      std::size_t best = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        sum += std::exp(static_cast<double>(logit(v, c)));
        if (logit(v, c) > logit(v, static_cast<std::int64_t>(best)))
          best = static_cast<std::size_t>(c);
      }
      const auto target = static_cast<std::size_t>(v % classes);
      loss += std::log(sum) - static_cast<double>(logit(v, v % classes));
      right += best == target ? 1 : 0;
      both[best] += best == target ? 1 : 0;
      predicted[best] += 1;
      actual[target] += 1;
    }
    double dice = 0;
    for (std::size_t c = 1; c < 3; ++c)
      dice += 2 * both[c] / (predicted[c] + actual[c]);
    const auto n = static_cast<double>(voxels);
    using Sums = ops::LossSums;
    const auto near = [&](int at, double wanted) {
      EXPECT_NEAR(row.sums[static_cast<std::size_t>(at)], wanted, 1e-5);
    };
    near(Sums::targets, n);
    near(Sums::loss, loss / n);
    near(Sums::correct, right / n);
    near(Sums::third, dice / 2);
  }

  // On two ranks the same bits.
  const SlidingWindows split(whole, 3, 0.5, 2, 2);
  auto parts = stitched(split, 0, head, *device, *stream);
  const auto second = stitched(split, 1, head, *device, *stream);
  parts.insert(parts.begin() + 1, second.begin(), second.end());
  ASSERT_EQ(parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[i].sample, static_cast<std::int64_t>(i));
    EXPECT_EQ(parts[i].sums, rows[i].sums);
  }
}

}  // namespace
}  // namespace trireme::test
