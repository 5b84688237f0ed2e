// SPDX-License-Identifier: Apache-2.0
// Ops on images before the first product of image models: patches, mixing.
#include <algorithm>
#include <numeric>

#include "runtime/ops/convolution/patches.h"
#include "runtime/ops/random/mix.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

class Patches : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Patches, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(Patches, AreRowsOfPixelsBehindRowsOfZeros) {
  struct Case {
    Shape images;
    std::int64_t size, before;
  };
  for (const Case& c : {Case{{1, 1, 1, 1}, 1, 0}, Case{{3, 6, 9, 3}, 3, 1},
                        Case{{2, 8, 16, 4}, 8, 1}, Case{{2, 10, 5, 2}, 5, 2}}) {
    const std::int64_t down = c.images[1] / c.size, across = c.images[2] / c.size;
    const std::int64_t channels = c.images[3], rows = c.before + down * across;
    const GuardedTensor x = random_tensor(GetParam(), c.images, 1);
    const GuardedTensor y(GetParam(), {c.images[0], rows, c.size * c.size * channels});
    const std::vector<double> values = x.get();
    std::vector<double> expected;
    for (std::int64_t row = 0; row < c.images[0] * rows; ++row) {
      const std::int64_t n = row / rows, patch = row % rows - c.before;
      for (std::int64_t i = 0; i < c.size * c.size * channels; ++i) {
        const std::int64_t h = patch / across * c.size + i / (c.size * channels);
        const std::int64_t w = patch % across * c.size + i / channels % c.size;
        const std::int64_t at = ((n * c.images[1] + h) * c.images[2] + w) * channels + i % channels;
        expected.push_back(patch < 0 ? 0.0 : values[static_cast<std::size_t>(at)]);
      }
    }

    ops::cut_patches(stream(), y, x, c.size, c.before);

    EXPECT_EQ(y.get(), expected) << c.images.to_string();
  }
}

TEST_P(Patches, FirstRowsAreTakenAndGivenBack) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{3, 7, 33}, Shape{2, 5, 40}}) {
    const GuardedTensor x = random_tensor(GetParam(), shape, 1), dx(GetParam(), shape);
    const GuardedTensor y(GetParam(), {shape[0], shape[2]});
    const std::vector<double> values = x.get();
    std::vector<double> expected, spread(values.size(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / shape[2];
      if (row % shape[1] != 0) continue;
      expected.push_back(values[i]);
      spread[i] = values[i];
    }

    ops::edge_rows_forward(stream(), y, x, ops::EdgeRow::first);
    ops::edge_rows_backward(stream(), dx, y, ops::EdgeRow::first);

    EXPECT_EQ(y.get(), expected);
    EXPECT_EQ(dx.get(), spread);
  }
}

TEST_P(Patches, LastRowsAreThoseBeforeThePaddingAndGoBackThere) {
  const GuardedTensor x = random_tensor(GetParam(), {3, 4, 6}, 1), dx(GetParam(), {3, 4, 6});
  const GuardedTensor y(GetParam(), {3, 6}), whole(GetParam(), {3, 6});
  const GuardedTensor starts(DType::i32, {3, 4}, {0, 0, 2, 2, 0, 0, 0, 0, 0, 1, 1, 1});
  const std::vector<double> values = x.get();
  std::vector<double> expected, spread(values.size(), 0.0);
  for (const std::size_t row : {1, 7, 8}) {
    for (std::size_t i = 6 * row; i < 6 * row + 6; ++i) {
      expected.push_back(values[i]);
      spread[i] = values[i];
    }
  }

  ops::edge_rows_forward(stream(), y, x, ops::EdgeRow::last, starts);
  ops::edge_rows_backward(stream(), dx, y, ops::EdgeRow::last, starts);
  ops::edge_rows_forward(stream(), whole, x, ops::EdgeRow::last);

  EXPECT_EQ(y.get(), expected);
  EXPECT_EQ(dx.get(), spread);
  EXPECT_EQ(whole.get()[0], values[18]);
}

TEST(PatchErrors, NameShapesAndSizes) {
  const GuardedTensor x(DType::f32, {1, 4, 6, 2}), y(DType::f32, {1, 7, 8}), z(DType::f32, {1, 2});

  expect_error([&] { ops::cut_patches(stream(), y, x, 4, 1); }, {"4 pixels", "(1, 4, 6, 2)"});
  expect_error([&] { ops::cut_patches(stream(), y, x, 2, 0); }, {"(1, 7, 8)", "(1, 6, 8)"});
  expect_error([&] { ops::edge_rows_forward(stream(), z, y, ops::EdgeRow::first); },
               {"(1, 2)", "(1, 8)"});
}

struct Mixed {
  std::vector<double> shares, boxes;
};

Mixed drawn(std::int64_t batch, const ops::MixOptions& options, std::int64_t first_id = 0) {
  std::vector<double> numbers(static_cast<std::size_t>(batch));
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(first_id));
  const GuardedTensor ids(DType::i64, {batch}, numbers);
  const GuardedTensor epochs(DType::i64, {batch}, std::vector<double>(numbers.size(), 3.0));
  const GuardedTensor shares(DType::f32, {batch}), boxes(DType::i32, {batch, 4});
  ops::choose_mix(stream(), shares, boxes, ids, epochs, options);
  return {shares.get(), boxes.get()};
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)).
TEST(MixChoice, SharesOfMixupAreDrawnFromBeta) {
  for (const double a : {0.2, 1.0, 4.0}) {
    const auto [shares, boxes] = drawn(4000, {.mixup = a, .height = 8, .width = 8, .seed = 5});

    double squares = 0;
    for (const double share : shares)
      squares += (share - 0.5) * (share - 0.5) / 4000;
    EXPECT_NEAR(mean(shares), 0.5, 0.03) << a;
    EXPECT_NEAR(squares, 1 / (4 * (2 * a + 1)), 0.015) << a;
    EXPECT_EQ(boxes, std::vector<double>(boxes.size(), 0.0));
  }
}

TEST(MixChoice, SharesOfCutMixAreThePixelsOutsideTheBox) {
  const auto [shares, boxes] = drawn(500, {.cutmix = 1, .height = 7, .width = 33, .seed = 5});

  for (std::size_t n = 0; n < shares.size(); ++n) {
    const double* const box = boxes.data() + 4 * n;
    EXPECT_TRUE(0 <= box[0] && box[0] <= box[1] && box[1] <= 7) << n;
    EXPECT_TRUE(0 <= box[2] && box[2] <= box[3] && box[3] <= 33) << n;
    EXPECT_NEAR(shares[n], 1 - (box[1] - box[0]) * (box[3] - box[2]) / (7 * 33), 1e-6);
  }
}

TEST(MixChoice, DependsOnTheSampleAndNotOnItsPlace) {
  const ops::MixOptions both{.mixup = 0.8, .cutmix = 1, .height = 16, .width = 16, .seed = 5};
  const Mixed all = drawn(40, both), late = drawn(8, both, 20);

  for (std::size_t n = 0; n < 8; ++n)
    EXPECT_EQ(late.shares[n], all.shares[20 + n]);
  const auto cut = std::ranges::count_if(all.boxes, [](double edge) { return edge != 0; });
  EXPECT_GT(cut, 10);
  EXPECT_NE(drawn(40, {.mixup = 0.8, .height = 16, .width = 16, .seed = 6}).shares, all.shares);
}

class MixImages : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, MixImages, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(MixImages, MixesWithTheNextPicture) {
  const Shape shape{3, 5, 7, 3};
  const GuardedTensor x = random_tensor(GetParam(), shape, 1), y(GetParam(), shape);
  const GuardedTensor shares(DType::f32, {3}, {0.25, 0.6, 1.0});
  const GuardedTensor boxes(DType::i32, {3, 4}, {0, 0, 0, 0, 1, 4, 2, 7, 0, 0, 3, 3});
  const std::vector<double> values = x.get();
  std::vector<double> expected(values.size());
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    const std::int64_t n = i / 105, row = i % 105 / 21, column = i % 21 / 3;
    const double own = values[static_cast<std::size_t>(i)];
    const double other = values[static_cast<std::size_t>((i + 105) % 315)];
    const bool inside = row >= 1 && row < 4 && column >= 2;
    expected[static_cast<std::size_t>(i)] = n == 0   ? 0.25 * own + 0.75 * other
                                            : n == 1 ? (inside ? other : own)
                                                     : own;
  }

  ops::mix_images(stream(), y, x, shares, boxes);

  expect_close(y.get(), expected, rounding_of(GetParam()), 1e-6);
}

TEST(MixErrors, NameParametersAndShapes) {
  EXPECT_THROW((void)drawn(2, {.height = 4, .width = 4}), Error);
  EXPECT_THROW((void)drawn(2, {.mixup = 5, .height = 4, .width = 4}), Error);
  const GuardedTensor x(DType::f32, {2, 3, 3, 1}), y(DType::f32, {2, 3, 3, 1});
  const GuardedTensor shares(DType::f32, {3}), boxes(DType::i32, {2, 4});
  expect_error([&] { ops::mix_images(stream(), y, x, shares, boxes); }, {"shares", "(3)", "(2)"});
}

}  // namespace
}  // namespace trireme
