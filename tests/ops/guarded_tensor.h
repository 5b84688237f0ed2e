// SPDX-License-Identifier: Apache-2.0
// Test tensors: device memory between guard bytes, filled and read as doubles.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "runtime/base/float8.h"
#include "tests/support/test_device.h"

namespace trireme::test {

inline Stream& stream() {
  return *test::SharedDevice::get().stream;
}

// Contiguous in memory, 64-byte aligned, with 64 guard bytes on both sides that its destructor
// checks.
class GuardedTensor {
 public:
  GuardedTensor(DType dtype, const Shape& shape)
      : dtype_(dtype),
        shape_(shape),
        bytes_(static_cast<std::size_t>(shape.count()) * size_of(dtype)) {
    buffer_ = Buffer(stream().device(), bytes_ + 2 * guard, MemoryKind::device);
    const std::vector<std::byte> filled(buffer_.bytes(), std::byte{pattern});
    test::upload(stream(), buffer_.data(), filled.data(), filled.size());
  }
  GuardedTensor(DType dtype, const Shape& shape, const std::vector<double>& values)
      : GuardedTensor(dtype, shape) {
    set(values);
  }
  ~GuardedTensor() {
    if (buffer_.data() == nullptr) return;
    EXPECT_TRUE(intact()) << "bytes around a tensor " << shape_.to_string() << " were written";
  }
  GuardedTensor(GuardedTensor&&) = default;
  GuardedTensor& operator=(GuardedTensor&&) = delete;
  GuardedTensor(const GuardedTensor&) = delete;
  GuardedTensor& operator=(const GuardedTensor&) = delete;

  [[nodiscard]] Tensor view() const { return {buffer_.data() + guard, dtype_, shape_}; }
  operator Tensor() const { return view(); }  // NOLINT: tests read better

  void set(const std::vector<double>& values) {
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), shape_.count());
    std::vector<std::byte> elements(bytes_);
    for (std::size_t i = 0; i < values.size(); ++i)
      put(elements.data(), i, values[i]);
    test::upload(stream(), view().data, elements.data(), bytes_);
  }
  [[nodiscard]] std::vector<double> get() const {
    std::vector<double> values(static_cast<std::size_t>(shape_.count()));
    std::vector<unsigned char> elements = raw();
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = at(reinterpret_cast<std::byte*>(elements.data()), i);
    return values;
  }
  // The elements themselves, as the dtype's C++ type.
  template <typename T>
  void set_elements(const std::vector<T>& elements) const {
    ASSERT_EQ(dtype_of<T>, dtype_);
    ASSERT_EQ(elements.size() * sizeof(T), bytes_);
    test::upload(stream(), view().data, elements.data(), bytes_);
  }
  template <typename T>
  [[nodiscard]] std::vector<T> elements() const {
    EXPECT_EQ(dtype_of<T>, dtype_);
    std::vector<T> values(bytes_ / sizeof(T));
    test::download(stream(), values.data(), view().data, values.size() * sizeof(T));
    return values;
  }
  [[nodiscard]] std::vector<unsigned char> raw() const {
    std::vector<unsigned char> elements(bytes_);
    test::download(stream(), elements.data(), view().data, bytes_);
    return elements;
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr int pattern = 0x5A;

  [[nodiscard]] bool intact() const {
    std::vector<std::byte> all(buffer_.bytes());
    test::download(stream(), all.data(), buffer_.data(), all.size());
    for (std::size_t i = 0; i < guard; ++i) {
      if (all[i] != std::byte{pattern}) return false;
      if (all[guard + bytes_ + i] != std::byte{pattern}) return false;
    }
    return true;
  }
  void put(std::byte* elements, std::size_t i, double value) const {
    const Tensor t{elements, dtype_, shape_};
    switch (dtype_) {
      case DType::f32:
        t.as<float>()[i] = static_cast<float>(value);
        break;
      case DType::f64:
        t.as<double>()[i] = value;
        break;
      case DType::bf16:
        t.as<bf16>()[i] = bf16(static_cast<float>(value));
        break;
      case DType::f16:
        t.as<f16>()[i] = f16(static_cast<float>(value));
        break;
      case DType::f8e4m3:
        t.as<f8e4m3>()[i] = f8e4m3(static_cast<float>(value));
        break;
      case DType::f8e5m2:
        t.as<f8e5m2>()[i] = f8e5m2(static_cast<float>(value));
        break;
      case DType::u8:
        t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
        break;
      case DType::i32:
        t.as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
        break;
      case DType::i64:
        t.as<std::int64_t>()[i] = static_cast<std::int64_t>(value);
        break;
      case DType::u64:
        t.as<std::uint64_t>()[i] = static_cast<std::uint64_t>(value);
        break;
      default:
        FAIL() << "no test values of this dtype";
    }
  }
  [[nodiscard]] double at(std::byte* elements, std::size_t i) const {
    const Tensor t{elements, dtype_, shape_};
    switch (dtype_) {
      case DType::f32:
        return static_cast<double>(t.as<float>()[i]);
      case DType::f64:
        return t.as<double>()[i];
      case DType::bf16:
        return static_cast<double>(static_cast<float>(t.as<bf16>()[i]));
      case DType::f16:
        return static_cast<double>(static_cast<float>(t.as<f16>()[i]));
      case DType::f8e4m3:
        return static_cast<double>(static_cast<float>(t.as<f8e4m3>()[i]));
      case DType::f8e5m2:
        return static_cast<double>(static_cast<float>(t.as<f8e5m2>()[i]));
      case DType::u8:
        return static_cast<double>(t.as<std::uint8_t>()[i]);
      case DType::i32:
        return static_cast<double>(t.as<std::int32_t>()[i]);
      case DType::i64:
        return static_cast<double>(t.as<std::int64_t>()[i]);
      case DType::u64:
        return static_cast<double>(t.as<std::uint64_t>()[i]);
      default:
        return std::nan("");
    }
  }

  DType dtype_;
  Shape shape_;
  std::size_t bytes_;
  Buffer buffer_;
};

// The nearest value in `dtype`.
inline double rounded_to(DType dtype, float value) {
  if (dtype == DType::bf16) value = static_cast<float>(bf16(value));
  if (dtype == DType::f16) value = static_cast<float>(f16(value));
  return static_cast<double>(value);
}

// Values that `dtype` represents exactly, so a reference starts from the same operands.
inline std::vector<double> random_values(std::int64_t count, unsigned seed, DType dtype,
                                         double low = -1.0, double high = 1.0) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values)
    value = rounded_to(dtype, static_cast<float>(uniform(generator)));
  return values;
}

inline GuardedTensor random_tensor(DType dtype, const Shape& shape, unsigned seed,
                                   double low = -1.0, double high = 1.0) {
  return {dtype, shape, random_values(shape.count(), seed, dtype, low, high)};
}

// |a - b| <= absolute + relative * |b| everywhere.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                         double relative, double absolute) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::abs(expected[i]))
        << "at element " << i;
  }
}

// Rounding error of one result in the dtype, and of a sum of `terms` f32 products of size up to
// one.
inline double rounding_of(DType dtype) {
  if (dtype == DType::f16) return 0x1p-11;
  return dtype == DType::bf16 ? 0x1p-8 : 0x1p-22;
}
inline double sum_rounding(std::int64_t terms) {
  return 4e-7 * std::sqrt(static_cast<double>(terms)) + 1e-7;
}
// For an f32 bias of size up to one: a GPU's matrix products take it in the result's dtype.
inline double bias_rounding(DType dtype) {
  return stream().device().type() == DeviceType::cuda ? rounding_of(dtype) : 0.0;
}

// The central difference of `loss` in each element of `values`.
inline std::vector<double> numeric_gradient(
    std::vector<double> values, const std::function<double(const std::vector<double>&)>& loss,
    double step = 1e-4) {
  std::vector<double> gradient(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double kept = values[i];
    values[i] = kept + step;
    const double above = loss(values);
    values[i] = kept - step;
    gradient[i] = (above - loss(values)) / (2.0 * step);
    values[i] = kept;
  }
  return gradient;
}

// Expects an Error with a message that contains every one of `parts`.
template <typename Action>
void expect_error(const Action& action, const std::vector<std::string>& parts) {
  try {
    action();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

// Elements [1, count + 1) of a tensor, aligned only to the element.
struct OffsetTensor {
  GuardedTensor whole;
  Tensor view;

  OffsetTensor(DType dtype, const Shape& shape, std::vector<double> values = {})
      : whole(dtype, {shape.count() + 1}) {
    values.resize(static_cast<std::size_t>(shape.count()));
    values.insert(values.begin(), 0.0);
    whole.set(values);
    view = whole.view().range(1, shape.count()).reshaped(shape);
  }
  [[nodiscard]] std::vector<double> get() const {
    std::vector<double> values = whole.get();
    values.erase(values.begin());
    return values;
  }
};

// An op in each type.
class TypedOp : public ::testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] double relative() const { return rounding_of(GetParam()); }
};

inline std::string dtype_label(const ::testing::TestParamInfo<DType>& info) {
  return std::string(name_of(info.param));
}

}  // namespace trireme::test
