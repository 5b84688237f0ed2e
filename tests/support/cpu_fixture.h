// SPDX-License-Identifier: Apache-2.0
// A CPU device with a compute stream, and host-side access to tensors, for tests above the ops.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace trireme::test {

class CpuFixture : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = Device::create(DeviceType::cpu);
  std::unique_ptr<Stream> compute_ = device_->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm_ = device_->make_stream(StreamKind::comm);
};

template <typename T>
[[nodiscard]] std::vector<T> values_of(const Tensor& tensor) {
  const T* const data = tensor.as<T>();
  return {data, data + tensor.count()};
}

// Owned memory seen as a tensor holding `values`.
template <typename T>
class Owned {
 public:
  Owned(Device& device, const Shape& shape, const std::vector<T>& values)
      : buffer_(device, values.size() * sizeof(T), MemoryKind::device),
        tensor_(buffer_.view(dtype_of<T>, shape)) {
    std::memcpy(buffer_.data(), values.data(), buffer_.bytes());
  }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Buffer buffer_;
  Tensor tensor_;
};

}  // namespace trireme::test
