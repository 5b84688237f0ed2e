// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/update/digest.h"

#include <bit>
#include <cstring>

#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

// Sums of several digests as the device makes them.
class DigestTest : public ::testing::Test {
 protected:
  std::uint64_t of(const std::vector<float>& values, std::uint64_t start = 0,
                   const ops::DigestPlaces& places = {}) {
    const Buffer x(stream().device(), values.size() * sizeof(float), MemoryKind::device);
    const Buffer sum(stream().device(), sizeof(std::uint64_t), MemoryKind::device);
    test::upload(stream(), x.data(), values.data(), x.bytes());
    test::upload(stream(), sum.data(), &start, sizeof(start));

    ops::accumulate_digest(stream(), sum.view(DType::u64, Shape{1}),
                           x.view(DType::f32, Shape{static_cast<std::int64_t>(values.size())}),
                           places);

    std::uint64_t digest = 0;
    test::download(stream(), &digest, sum.data(), sizeof(digest));
    return digest;
  }
  static std::vector<float> sample(std::int64_t n) {
    const auto wide = random_values(n, 7, DType::f32, -1.0, 1.0);
    return {wide.begin(), wide.end()};
  }
};

TEST_F(DigestTest, HasTheSameBitsOnEveryBackEnd) {
  // Worked out from the formula alone.
  EXPECT_EQ(of({1.0F}), 0x2a5cf130132ea644U);
  EXPECT_EQ(of({0.0F, 0.0F}), 0xe220a8397b1dcdafU);
}

TEST_F(DigestTest, AddsToTheExistingDigest) {
  const auto values = sample(1000);

  EXPECT_EQ(of(values, 41), of(values) + 41);
}

TEST_F(DigestTest, EveryBitOfEveryElementCounts) {
  for (const std::int64_t n : {1, 31, 2048, 70001}) {
    const auto values = sample(n);
    const std::uint64_t expected = of(values);
    for (const std::int64_t i : {std::int64_t{0}, n / 2, n - 1}) {
      for (int bit = 0; bit < 32; bit += 5) {
        auto flipped = values;
        float& value = flipped[static_cast<std::size_t>(i)];
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ (1U << bit));
        EXPECT_NE(of(flipped), expected) << "bit " << bit << " of element " << i << " of " << n;
      }
    }
  }
}

TEST_F(DigestTest, PlacesCount) {
  auto values = sample(100);
  const std::uint64_t expected = of(values);
  std::swap(values[3], values[71]);

  EXPECT_NE(of(values), expected);
}

// Columns [0, 3) and [3, 10) of 7 rows of 10, the second from its 5th element on.
TEST_F(DigestTest, ThePartsOfATensorAddUpToTheWhole) {
  constexpr std::int64_t columns = 10, cut = 3, begin = 5;
  const auto values = sample(7 * columns);
  std::vector<float> left, right, front;
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    const bool is_left = i % columns < cut;
    (is_left                     ? left
     : std::ssize(front) < begin ? front
                                 : right)
        .push_back(values[static_cast<std::size_t>(i)]);
  }
  const ops::DigestPlaces behind{
      .base = 40 + cut, .width = columns - cut, .stride = columns, .first = 0};
  ops::DigestPlaces rest = behind;
  rest.first = begin;

  const std::uint64_t sum = of(left, 0, {.base = 40, .width = cut, .stride = columns}) +
                            of(front, 0, behind) + of(right, 0, rest);

  EXPECT_EQ(sum, of(values, 0, {.base = 40}));
  EXPECT_EQ(sum, ops::host_digest(values, {.base = 40}));
}

}  // namespace
}  // namespace trireme
