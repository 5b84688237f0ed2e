// SPDX-License-Identifier: Apache-2.0
// Initialisation, dropout and augmentation: everything drawn from Philox.
#include <numbers>
#include <numeric>
#include <set>

#include "runtime/base/philox.h"
#include "runtime/base/portable_math.h"
#include "runtime/ops/random/augment.h"
#include "runtime/ops/random/augment_math.h"
#include "runtime/ops/random/dropout.h"
#include "runtime/ops/random/init.h"
#include "runtime/ops/random/philox_block.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

TEST(PhiloxBlock, GivesTheWordsOfSingleDraws) {
  const Philox key = Philox::keyed(99, RandomPurpose::test);
  const std::uint64_t hi = 0x0123456789abcdefULL, block = 0x3ffffffffffULL;
  ops::PhiloxBlock random;

  ops::philox_block(random, key, hi, block);

  for (std::uint64_t j = 0; j < 64; ++j) {
    const auto words = key(hi, 64 * block + j);
    for (std::uint64_t w = 0; w < 4; ++w)
      ASSERT_EQ(random.words[64 * w + j], words[w]);
  }
}

TEST(PortableMath, AgreesWithTheMathLibrary) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (int i = 0; i < 20000; ++i) {
    const double u = i == 0 ? 0x1p-52 : uniform(generator);
    const SineCosine direction = portable_sine_cosine(u);
    ASSERT_NEAR(portable_log(u), std::log(u), 4e-16 * (1.0 + std::abs(std::log(u))));
    ASSERT_NEAR(direction.sine, std::sin(2.0 * std::numbers::pi * u), 2e-15);
    ASSERT_NEAR(direction.cosine, std::cos(2.0 * std::numbers::pi * u), 2e-15);
  }
  EXPECT_EQ(portable_log(1.0), 0.0);
}

TEST(FillNormal, HasTheMomentsOfANormalDistribution) {
  const GuardedTensor x(DType::f32, {100000});

  ops::fill_normal(stream(), x, 1234, 42, 0, 1.0F, 2.0F);

  double sum = 0, squares = 0, fourth = 0;
  for (const double value : x.get()) {
    const double z = (value - 1.0) / 2.0;
    sum += z;
    squares += z * z;
    fourth += z * z * z * z;
  }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.015);
  EXPECT_NEAR(squares / 1e5, 1.0, 0.02);
  EXPECT_NEAR(fourth / 1e5, 3.0, 0.15);
}

TEST(FillNormal, IsTheSameForEverySplitOfTheTensor) {
  const GuardedTensor whole(DType::f32, {1000});
  ops::fill_normal(stream(), whole, 7, 3, 0, 0.0F, 1.0F);
  const std::vector<double> expected = whole.get();
  for (const std::int64_t first : {1, 63, 64, 127, 128, 500, 999}) {
    const GuardedTensor part(DType::f32, {1000 - first});

    ops::fill_normal(stream(), part, 7, 3, first, 0.0F, 1.0F);

    EXPECT_EQ(part.get(), std::vector<double>(expected.begin() + first, expected.end()));
  }
}

TEST(FillNormal, DependsOnSeedAndParameter) {
  std::set<std::vector<double>> distinct;
  for (const auto& [seed, parameter] : {std::pair{1, 1}, std::pair{1, 2}, std::pair{2, 1}}) {
    const GuardedTensor x(DType::f32, {33});
    ops::fill_normal(stream(), x, static_cast<std::uint64_t>(seed),
                     static_cast<std::uint64_t>(parameter), 0, 0.0F, 1.0F);
    distinct.insert(x.get());
  }
  EXPECT_EQ(distinct.size(), 3U);
}

TEST(FillNormal, KeepsItsBits) {
  const GuardedTensor x(DType::f32, {4});

  ops::fill_normal(stream(), x, 1234, 1, 0, 0.0F, 1.0F);

  std::vector<std::uint32_t> bits;
  for (const float value : x.elements<float>())
    bits.push_back(std::bit_cast<std::uint32_t>(value));
  EXPECT_EQ(bits, (std::vector<std::uint32_t>{1066421314, 1044451103, 3213575423, 1064971208}));
}

TEST(FillNormal, HasTheSameBitsOnEveryDevice) {
  const GuardedTensor x(DType::f32, {1500});
  const Philox key = Philox::keyed(7, RandomPurpose::init);

  ops::fill_normal(stream(), x, 7, 3, 0, 0.5F, 2.0F);

  const std::vector<float> values = x.elements<float>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto words = key(3, i / 128 * 64 + i % 64);
    const NormalPair pair = box_muller(words[0], words[1], words[2], words[3]);
    const double normal = i % 128 < 64 ? pair.first : pair.second;
    ASSERT_EQ(values[i], static_cast<float>(std::fma(2.0, normal, 0.5)));
  }
}

TEST(FillUniform, StaysInsideItsBoundsAndSplits) {
  const GuardedTensor x(DType::f32, {5000}), part(DType::f32, {4000});

  ops::fill_uniform(stream(), x, 5, 6, 0, -2.0F, 3.0F);
  ops::fill_uniform(stream(), part, 5, 6, 1000, -2.0F, 3.0F);

  const std::vector<double> values = x.get();
  double sum = 0;
  for (const double value : values) {
    ASSERT_GE(value, -2.0);
    ASSERT_LE(value, 3.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 5000, 0.5, 0.1);
  EXPECT_EQ(part.get(), std::vector<double>(values.begin() + 1000, values.end()));
}

TEST(FillConstant, WritesEveryElement) {
  const GuardedTensor x(DType::f32, {17});

  ops::fill_constant(stream(), x, 2.5F);

  EXPECT_EQ(x.get(), std::vector<double>(17, 2.5));
}

class RandomOps : public ::testing::TestWithParam<DType> {};
TEST(FillSinusoid, WritesPairsOfSineAndCosineWaves) {
  const GuardedTensor x(DType::f32, {9, 7});

  ops::fill_sinusoid(stream(), x, 0, 7, 0.5F);

  const auto values = x.get();
  for (int p = 0; p < 9; ++p) {
    for (int c = 0; c < 7; ++c) {
      const double angle = p / std::pow(10000.0, (c / 2 * 2) / 7.0);
      const double wave = 0.5 * (c % 2 == 0 ? std::sin(angle) : std::cos(angle));
      EXPECT_NEAR(static_cast<double>(values[static_cast<std::size_t>(p * 7 + c)]), wave, 1e-7);
    }
  }
  // All but the first elements of a long tensor.
  constexpr std::int64_t first = 16, count = 3001 * 6 - first;
  const GuardedTensor large(DType::f32, {count});
  ops::fill_sinusoid(stream(), large, first, 6, 1.0F);
  const std::vector<float> waves = large.elements<float>();
  for (std::int64_t i = first; i < first + count; ++i) {
    const double angle =
        static_cast<double>(i / 6) / std::pow(10000.0, static_cast<double>(i % 6 / 2 * 2) / 6.0);
    const float actual = waves[static_cast<std::size_t>(i - first)];
    ASSERT_NEAR(static_cast<double>(actual), i % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-7);
    ASSERT_EQ(actual, sinusoid(i / 6, i % 6, 6, 1.0F));
  }
  expect_error([&] { ops::fill_sinusoid(stream(), x, 0, 0, 1.0F); }, {"fill_sinusoid", "width 0"});
}

INSTANTIATE_TEST_SUITE_P(Types, RandomOps, ::testing::Values(DType::f32, DType::bf16, DType::f16),
                         dtype_label);

TEST_P(RandomOps, DropoutKeepsTheExpectedShareAndScalesIt) {
  const GuardedTensor x(GetParam(), {4, 5000}, std::vector<double>(20000, 1.0)),
      y(GetParam(), {4, 5000});
  const GuardedTensor ids(DType::i64, {4}, {3, 1, 4, 15}), rng(DType::u64, {2}, {1234, 7});

  ops::dropout(stream(), y, x, ids, rng, 11, 0.25F);

  double kept = 0;
  for (const double value : y.get()) {
    ASSERT_TRUE(value == 0.0 || std::abs(value - 4.0 / 3.0) < 0.01) << value;
    kept += value != 0.0 ? 1.0 : 0.0;
  }
  EXPECT_NEAR(kept / 20000, 0.75, 0.015);
}

TEST_P(RandomOps, DropoutDrawsASamplesMaskWhereverTheSampleIs) {
  const GuardedTensor x = random_tensor(GetParam(), {2, 3, 111}, 1, 1.0, 2.0),
                      y(GetParam(), {2, 3, 111});
  const GuardedTensor one(GetParam(), {1, 3, 111}), rng(DType::u64, {2}, {1, 2});
  const Tensor second = x.view().range(333, 333).reshaped({1, 3, 111});

  ops::dropout(stream(), y, x, GuardedTensor(DType::i64, {2}, {5, 9}), rng, 1, 0.5F);
  ops::dropout(stream(), one, second, GuardedTensor(DType::i64, {1}, {9}), rng, 1, 0.5F);

  const std::vector<double> both = y.get();
  EXPECT_EQ(one.get(), std::vector<double>(both.begin() + 333, both.end()));
}

TEST_P(RandomOps, DropoutOfARunOfRowsDrawsThatPartOfTheWholeMask) {
  constexpr std::int64_t samples = 3, length = 5, columns = 77, rows = samples * length;
  const GuardedTensor x = random_tensor(GetParam(), {samples, length, columns}, 1, 1.0, 2.0);
  const GuardedTensor y(GetParam(), {samples, length, columns});
  const GuardedTensor ids(DType::i64, {samples}, {5, 9, 2}), rng(DType::u64, {2}, {1, 2});
  ops::dropout(stream(), y, x, ids, rng, 1, 0.5F);
  const std::vector<double> whole = y.get();

  for (std::int64_t first = 0; first < rows; ++first) {
    for (std::int64_t count = 0; first + count <= rows; count += 1 + first % 3) {
      const GuardedTensor part(GetParam(), {count, columns});

      ops::dropout_rows(stream(), part,
                        x.view().range(first * columns, count * columns).reshaped({count, columns}),
                        ids, rng, 1, 0.5F, first, length);

      const auto begin = whole.begin() + first * columns;
      ASSERT_EQ(part.get(), std::vector<double>(begin, begin + count * columns));
    }
  }
}

TEST_P(RandomOps, DropoutMasksDifferByStepLayerAndSample) {
  const GuardedTensor x(GetParam(), {1, 200}, std::vector<double>(200, 1.0));
  std::set<std::vector<double>> masks;
  const auto draw = [&](double step, std::uint64_t layer, double sample) {
    const GuardedTensor y(GetParam(), {1, 200});
    ops::dropout(stream(), y, x, GuardedTensor(DType::i64, {1}, {sample}),
                 GuardedTensor(DType::u64, {2}, {1, step}), layer, 0.5F);
    masks.insert(y.get());
  };

  draw(1, 1, 1);
  draw(2, 1, 1);
  draw(1, 2, 1);
  draw(1, 1, 2);

  EXPECT_EQ(masks.size(), 4U);
}

TEST_P(RandomOps, DropoutOfProbabilityZeroCopiesAlsoInPlace) {
  const GuardedTensor x = random_tensor(GetParam(), {1, 77}, 3);
  const std::vector<double> before = x.get();

  ops::dropout(stream(), x, x, GuardedTensor(DType::i64, {1}, {0}),
               GuardedTensor(DType::u64, {2}, {1, 1}), 1, 0.0F);

  EXPECT_EQ(x.get(), before);
}

TEST(DropoutErrors, RefuseAProbabilityOfOne) {
  const GuardedTensor x(DType::f32, {1, 4}), ids(DType::i64, {1}), rng(DType::u64, {2});

  expect_error([&] { ops::dropout(stream(), x, x, ids, rng, 1, 1.0F); }, {"dropout", "[0, 1)"});
  expect_error([&] { ops::dropout(stream(), x, x, rng, rng, 1, 0.1F); }, {"sample_ids"});
}

TEST(DropoutErrors, RefuseRowsOutsideTheBatch) {
  const GuardedTensor x(DType::f32, {4, 3}), ids(DType::i64, {2}), rng(DType::u64, {2});
  const auto run = [&](std::int64_t first_row) {
    ops::dropout_rows(stream(), x, x, ids, rng, 1, 0.1F, first_row, 3);
  };

  expect_error([&] { run(3); }, {"4 rows from 3", "2 samples of 3 rows"});
  expect_error([&] { run(-1); }, {"4 rows from -1"});
}

ops::AugmentOptions color_options() {
  ops::AugmentOptions options;
  options.mean = {0.1F, 0.2F, 0.3F, 0.4F};
  options.stddev = {0.5F, 0.6F, 0.7F, 0.8F};
  options.seed = 77;
  return options;
}

double normalized(const ops::AugmentOptions& options, double byte, std::size_t c) {
  return (byte / 255.0 - static_cast<double>(options.mean[c])) /
         static_cast<double>(options.stddev[c]);
}

TEST_P(RandomOps, AugmentOnlyNormalisesInEvaluation) {
  ops::AugmentOptions options = color_options();
  options.random = false;
  options.flip = true;
  options.crop_padding = 4;
  const Shape shape{2, 5, 7, 3};
  const GuardedTensor images = random_tensor(DType::u8, shape, 1, 0, 255), y(GetParam(), shape);
  std::vector<double> expected = images.get();
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = normalized(options, expected[i], i % 3);

  ops::augment(stream(), y, images, GuardedTensor(DType::i64, {2}, {0, 1}),
               GuardedTensor(DType::i64, {2}, {0, 0}), options);

  expect_close(y.get(), expected, rounding_of(GetParam()), 1e-6);
}

// The images cropped and flipped as chosen for the samples 40, 41, ...; 0 outside of the source.
template <typename Converted>
std::vector<double> moved(const ops::AugmentOptions& options, const Shape& shape,
                          const std::vector<double>& values, Converted converted) {
  std::vector<double> to(values.size());
  for (std::int64_t i = 0; i < shape.count(); ++i) {
    const std::int64_t c = i % shape[3], w = i / shape[3] % shape[2],
                       h = i / shape[3] / shape[2] % shape[1],
                       n = i / (shape[1] * shape[2] * shape[3]);
    const auto choice = ops::choose_augmentation(options, 40 + n, 40 + n);
    const std::int64_t row = h + choice.top, shifted = w + choice.left;
    if (row < 0 || row >= shape[1] || shifted < 0 || shifted >= shape[2]) continue;
    const std::int64_t column = choice.flip ? shape[2] - 1 - shifted : shifted;
    const auto from =
        static_cast<std::size_t>(((n * shape[1] + row) * shape[2] + column) * shape[3] + c);
    to[static_cast<std::size_t>(i)] = converted(values[from], static_cast<std::size_t>(c));
  }
  return to;
}

TEST_P(RandomOps, AugmentHasTheSameBitsOnEveryDevice) {
  ops::AugmentOptions options = color_options();
  options.flip = true;
  options.crop_padding = 3;
  for (const Shape& shape :
       {Shape{3, 8, 8, 4}, Shape{2, 40, 56, 3}, Shape{2, 16, 16, 1}, Shape{5, 7, 3, 3}}) {
    const GuardedTensor images = random_tensor(DType::u8, shape, 1, 0, 255), y(GetParam(), shape);
    std::vector<double> samples(static_cast<std::size_t>(shape[0]));
    std::iota(samples.begin(), samples.end(), 40.0);
    const GuardedTensor ids(DType::i64, {shape[0]}, samples);
    const auto to_float = [&](double pixel, std::size_t channel) {
      return static_cast<double>(ops::normalized_byte(
          static_cast<int>(pixel), options.mean[channel], options.stddev[channel]));
    };
    const GuardedTensor expected(GetParam(), shape, moved(options, shape, images.get(), to_float));

    ops::augment(stream(), y, images, ids, ids, options);

    EXPECT_EQ(y.raw(), expected.raw());
  }
}

TEST_P(RandomOps, AugmentMovesFloatsOfAnyNumberOfChannelsAndLeavesTheirValues) {
  ops::AugmentOptions options;
  options.flip = true;
  options.crop_padding = 2;
  options.seed = 5;
  options.mean = {7, 7, 7, 7};  // of bytes alone
  for (const Shape& shape : {Shape{3, 6, 8, 16}, Shape{2, 5, 3, 7}, Shape{4, 9, 9, 1}}) {
    const GuardedTensor images = random_tensor(DType::f32, shape, 1, -3, 3), y(GetParam(), shape);
    std::vector<double> samples(static_cast<std::size_t>(shape[0]));
    std::iota(samples.begin(), samples.end(), 40.0);
    const GuardedTensor ids(DType::i64, {shape[0]}, samples);
    const auto unchanged = [](double value, std::size_t) { return value; };
    const GuardedTensor expected(GetParam(), shape, moved(options, shape, images.get(), unchanged));

    ops::augment(stream(), y, images, ids, ids, options);

    EXPECT_EQ(y.raw(), expected.raw());
  }
}

// Finds the crop and flip that explain `y`, or fails.
struct Placement {
  std::int64_t top = 0, left = 0;
  bool flip = false;
  bool found = false;
};

Placement explain(const std::vector<double>& y, const std::vector<double>& image, std::int64_t size,
                  std::int64_t padding, const ops::AugmentOptions& options, double tolerance) {
  for (std::int64_t top = -padding; top <= padding; ++top) {
    for (std::int64_t left = -padding; left <= padding; ++left) {
      for (const bool flip : {false, true}) {
        bool same = true;
        for (std::int64_t h = 0; h < size && same; ++h) {
          for (std::int64_t w = 0; w < size && same; ++w) {
            const std::int64_t row = h + top, shifted = w + left;
            const std::int64_t column = flip ? size - 1 - shifted : shifted;
            const bool inside = row >= 0 && row < size && shifted >= 0 && shifted < size;
            const double expected =
                inside
                    ? normalized(options, image[static_cast<std::size_t>(row * size + column)], 0)
                    : 0.0;
            same = std::abs(y[static_cast<std::size_t>(h * size + w)] - expected) <= tolerance;
          }
        }
        if (same) return {top, left, flip, true};
      }
    }
  }
  return {};
}

TEST_P(RandomOps, AugmentCropsAndFlipsEverySampleItsOwnWay) {
  ops::AugmentOptions options = color_options();
  options.flip = true;
  options.crop_padding = 2;
  const std::int64_t size = 9, batch = 64;
  const GuardedTensor images = random_tensor(DType::u8, {batch, size, size, 1}, 5, 0, 255);
  std::vector<double> samples(batch);
  std::iota(samples.begin(), samples.end(), 1000.0);
  const GuardedTensor y(GetParam(), {batch, size, size, 1}), ids(DType::i64, {batch}, samples),
      epochs(DType::i64, {batch}, std::vector<double>(batch, 3.0));

  ops::augment(stream(), y, images, ids, epochs, options);

  const std::vector<double> all = y.get(), sources = images.get();
  std::set<std::int64_t> tops, lefts;
  int flips = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    const auto slice = [&](const std::vector<double>& from) {
      return std::vector<double>(from.begin() + n * 81, from.begin() + (n + 1) * 81);
    };
    const Placement placement =
        explain(slice(all), slice(sources), size, 2, options, 2 * rounding_of(GetParam()));
    ASSERT_TRUE(placement.found) << "sample " << n;
    tops.insert(placement.top);
    lefts.insert(placement.left);
    flips += placement.flip ? 1 : 0;
  }
  EXPECT_EQ(tops.size(), 5U);
  EXPECT_EQ(lefts.size(), 5U);
  EXPECT_GT(flips, 16);
  EXPECT_LT(flips, 48);
}

TEST(Augment, DependsOnSampleAndEpochNotOnPlaceInTheBatch) {
  ops::AugmentOptions options = color_options();
  options.flip = true;
  options.crop_padding = 3;
  const GuardedTensor image = random_tensor(DType::u8, {1, 11, 11, 2}, 6, 0, 255);
  const GuardedTensor twice(DType::u8, {2, 11, 11, 2});
  std::vector<double> pixels = image.get();
  pixels.insert(pixels.end(), pixels.begin(), pixels.begin() + 242);
  GuardedTensor batch(DType::u8, {2, 11, 11, 2}, pixels);
  const GuardedTensor one(DType::f32, {1, 11, 11, 2}), both(DType::f32, {2, 11, 11, 2});

  ops::augment(stream(), one, image, GuardedTensor(DType::i64, {1}, {8}),
               GuardedTensor(DType::i64, {1}, {2}), options);
  ops::augment(stream(), both, batch, GuardedTensor(DType::i64, {2}, {9, 8}),
               GuardedTensor(DType::i64, {2}, {2, 2}), options);

  const std::vector<double> all = both.get();
  EXPECT_EQ(one.get(), std::vector<double>(all.begin() + 242, all.end()));
}

TEST(AugmentErrors, NameChannelsAndShapes) {
  const GuardedTensor ids(DType::i64, {1}), y5(DType::f32, {1, 2, 2, 5}),
      x5(DType::u8, {1, 2, 2, 5});
  const GuardedTensor y(DType::f32, {1, 2, 2, 1}), x(DType::u8, {1, 2, 3, 1});

  expect_error([&] { ops::augment(stream(), y5, x5, ids, ids, {}); }, {"augment", "5 channels"});
  expect_error([&] { ops::augment(stream(), y, x, ids, ids, {}); },
               {"(1, 2, 3, 1)", "(1, 2, 2, 1)"});
}

}  // namespace
}  // namespace trireme
