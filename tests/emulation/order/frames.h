// SPDX-License-Identifier: Apache-2.0
// The host's call stack at a call: return addresses, and their names when a report needs them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::emulated::order {

struct Frames {
  std::array<void*, 16> addresses{};
  int depth = 0;

  [[nodiscard]] static Frames here();
};

// An address within the program's file, for addr2line.
[[nodiscard]] std::uintptr_t offset_in_program(const void* address);

// By addr2line, innermost first: "StepEngine::run (runtime/train/step_engine.cpp:165)"; places need
// debug information. Omits frames of the emulator and of the device module.
[[nodiscard]] std::vector<std::string> names_of(const Frames& frames);
// The name of a kernel.
[[nodiscard]] std::string function_name(const void* function);
// The function of CUDA's or a library's that was called.
[[nodiscard]] std::string call_name(const Frames& frames);

}  // namespace trireme::emulated::order
