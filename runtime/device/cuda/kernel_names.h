// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: kernel names from the program's symbol table.
#pragma once

#include <string>

namespace trireme::cuda {

// "adamw_kernel<bf16>" from the function that launches a kernel; "kernel" in a stripped program.
[[nodiscard]] std::string kernel_name(const void* kernel);

}  // namespace trireme::cuda
