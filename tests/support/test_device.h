// SPDX-License-Identifier: Apache-2.0
// The device under test: the CPU, or the one in TRIREME_TEST_DEVICE. Tests access the memory of
// either through copies.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace trireme::test {

[[nodiscard]] inline DeviceType device_under_test() {
  const char* const name = std::getenv("TRIREME_TEST_DEVICE");
  return name != nullptr && std::string(name) == "cuda" ? DeviceType::cuda : DeviceType::cpu;
}

inline constexpr int skipped = 77;  // CTest's SKIP_RETURN_CODE

// The device and compute stream shared by the tests of one process.
struct SharedDevice {
  std::unique_ptr<Device> device = Device::create(device_under_test());
  std::unique_ptr<Stream> stream = device->make_stream(StreamKind::compute);

  static SharedDevice& get() {
    static SharedDevice instance;
    return instance;
  }
};

// Copies after all work on `stream`, and waits for it.
inline void download(Stream& stream, void* to, const void* from, std::size_t bytes) {
  const Buffer staged(stream.device(), bytes, MemoryKind::host);
  stream.device().copy(stream, staged.data(), from, bytes);
  stream.synchronize();
  if (bytes > 0) std::memcpy(to, staged.data(), bytes);
}
inline void upload(Stream& stream, void* to, const void* from, std::size_t bytes) {
  const Buffer staged(stream.device(), bytes, MemoryKind::host);
  if (bytes > 0) std::memcpy(staged.data(), from, bytes);
  stream.device().copy(stream, to, staged.data(), bytes);
  stream.synchronize();
}

}  // namespace trireme::test
