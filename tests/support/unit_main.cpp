// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/device/gpu_facts.h"
#include "tests/support/test_device.h"

namespace trireme {
// Of data/hdf5/child.h, in tests that link it.
[[gnu::weak]] void serve_hdf5_child(int argc, char** argv);
}  // namespace trireme

int main(int argc, char** argv) {
  if (trireme::serve_hdf5_child != nullptr) trireme::serve_hdf5_child(argc, argv);
  trireme::load_kernels_when_used();
  testing::InitGoogleTest(&argc, argv);
  if (trireme::test::device_under_test() == trireme::DeviceType::cuda) {
    try {
      static_cast<void>(trireme::test::SharedDevice::get());
    } catch (const trireme::Error& error) {
      std::printf("skipped: %s\n", error.what());
      return trireme::test::skipped;
    }
  }
  return RUN_ALL_TESTS();
}
