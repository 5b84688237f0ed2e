// SPDX-License-Identifier: Apache-2.0
// Host memory of a test as seen by the device under test: the memory itself on the CPU, a copy on a
// GPU.
#pragma once

#include <span>
#include <vector>

#include "tests/support/test_device.h"

namespace trireme::test {

class Mirrors {
 public:
  explicit Mirrors(Stream& stream) : stream_(stream) {}

  // The device copy of `host`. The first call since bring_back() copies to the device.
  [[nodiscard]] std::byte* of(std::span<std::byte> host) {
    if (stream_.device().type() == DeviceType::cpu || host.empty()) return host.data();
    for (const Mirror& mirror : mirrors_) {
      if (mirror.host.data() == host.data()) return mirror.buffer.data();
    }
    Mirror& mirror =
        mirrors_.emplace_back(host, Buffer(stream_.device(), host.size(), MemoryKind::device));
    upload(stream_, mirror.buffer.data(), host.data(), host.size());
    return mirror.buffer.data();
  }

  // After the device's work is done.
  void bring_back() {
    for (const Mirror& mirror : mirrors_)
      download(stream_, mirror.host.data(), mirror.buffer.data(), mirror.host.size());
    mirrors_.clear();
  }

 private:
  struct Mirror {
    Mirror(std::span<std::byte> memory, Buffer copy) : host(memory), buffer(std::move(copy)) {}
    std::span<std::byte> host;
    Buffer buffer;
  };

  Stream& stream_;
  std::vector<Mirror> mirrors_;
};

}  // namespace trireme::test
