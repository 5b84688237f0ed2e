// SPDX-License-Identifier: Apache-2.0
// Private to this folder: NVML is part of the driver, so it is loaded at run time; the build has
// neither its headers nor its library. Names, types and numbers are from NVIDIA's NVML reference.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

namespace trireme {

class Nvml {
 public:
  using Device = void*;
  static constexpr int success = 0;

  // Null if the driver has none, or it fails to start.
  [[nodiscard]] static std::shared_ptr<Nvml> open();
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Null if this driver lacks it.
  template <typename Function>
  [[nodiscard]] Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  // The GPU at a PCI address ("00000000:65:00.0"); null if NVML does not know it.
  [[nodiscard]] Device device(const std::string& bus) const;

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* library_;
  bool started_ = false;
};

}  // namespace trireme
