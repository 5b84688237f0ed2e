// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace trireme {
namespace {

using testing::HasSubstr;

template <typename Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
    return error.what();
  }
  return "nothing was raised";
}

TEST(Shape, DefaultIsAScalarOfOneElement) {
  const Shape shape;

  EXPECT_EQ(shape.rank(), 0U);
  EXPECT_EQ(shape.count(), 1);
  EXPECT_EQ(shape.to_string(), "()");
}

TEST(Shape, CountsElementsAndRows) {
  const Shape shape{4, 256, 768};

  EXPECT_EQ(shape.rank(), 3U);
  EXPECT_EQ(shape[1], 256);
  EXPECT_EQ(shape.back(), 768);
  EXPECT_EQ(shape.count(), 4 * 256 * 768);
  EXPECT_EQ(shape.rows(), 4 * 256);
  EXPECT_EQ(shape.to_string(), "(4, 256, 768)");
}

TEST(Shape, OfAnEmptyTensorHasNoElementsAndNoRows) {
  EXPECT_EQ((Shape{3, 0}.count()), 0);
  EXPECT_EQ((Shape{3, 0}.rows()), 0);
  EXPECT_EQ((Shape{0, 3}.rows()), 0);
}

TEST(Shape, EqualityComparesRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{6}), (Shape{2, 3}));
  EXPECT_NE(Shape{}, (Shape{1}));
}

TEST(Shape, AcceptsSixAxesAndRefusesSeven) {
  EXPECT_EQ((Shape{1, 2, 3, 4, 5, 6}.count()), 720);

  const std::vector<std::int64_t> seven(7, 1);
  EXPECT_THAT(message_of([&] { Shape{std::span(seven)}; }), HasSubstr("at most 6 axes, not 7"));
}

TEST(Shape, RefusesANegativeExtent) {
  EXPECT_THAT(message_of([] { Shape{2, -1}; }), HasSubstr("(2, -1)"));
}

TEST(Shape, RefusesACountThatOverflows) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(Shape{large}.count(), large);
  EXPECT_THAT(message_of([=] { Shape{large, 2}; }), HasSubstr("do not fit in 63 bits"));
}

class TensorTest : public testing::Test {
 protected:
  std::vector<float> values_{0, 1, 2, 3, 4, 5};
  Tensor tensor_{reinterpret_cast<std::byte*>(values_.data()), DType::f32, Shape{2, 3}};
};

TEST_F(TensorTest, DefaultMadeIsAbsent) {
  EXPECT_TRUE(Tensor{}.empty());
  EXPECT_FALSE(tensor_.empty());
}

TEST_F(TensorTest, GivesBytesAndATypedPointer) {
  EXPECT_EQ(tensor_.bytes(), 24U);
  EXPECT_EQ(tensor_.as<float>(), values_.data());
}

TEST_F(TensorTest, RefusesAPointerOfAnotherType) {
  EXPECT_THAT(message_of([&] { static_cast<void>(tensor_.as<bf16>()); }),
              HasSubstr("tensor (2, 3) holds f32, asked for bf16"));
}

TEST_F(TensorTest, ReshapesWithoutMovingTheData) {
  const Tensor flat = tensor_.reshaped({6});

  EXPECT_EQ(flat.data, tensor_.data);
  EXPECT_EQ(flat.shape, (Shape{6}));
}

TEST_F(TensorTest, RefusesAReshapeOfAnotherCount) {
  EXPECT_THAT(message_of([&] { static_cast<void>(tensor_.reshaped({5})); }),
              HasSubstr("(2, 3) cannot be viewed as (5)"));
}

TEST_F(TensorTest, RangeIsAViewOfConsecutiveElements) {
  const Tensor middle = tensor_.range(2, 3);

  EXPECT_EQ(middle.shape, (Shape{3}));
  EXPECT_EQ(middle.as<float>()[0], 2.0F);
  EXPECT_EQ(tensor_.range(6, 0).count(), 0);
}

TEST_F(TensorTest, RefusesARangeOutsideTheTensor) {
  for (const auto& [first, length] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 2}, {4, 3}, {7, 0}, {0, -1}, {2, std::numeric_limits<std::int64_t>::max()}}) {
    EXPECT_THAT(message_of([&] { static_cast<void>(tensor_.range(first, length)); }),
                HasSubstr("lies outside (2, 3)"))
        << first << ", " << length;
  }
}

}  // namespace
}  // namespace trireme
