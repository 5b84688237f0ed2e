// SPDX-License-Identifier: Apache-2.0
// Private to the CUDA back end: what kernels are called, from the program's own table of symbols.
#pragma once

#include <string>

namespace trireme::cuda {

// "adamw_kernel<bf16>" of the function that launches a kernel; "kernel" in a program that was
// stripped of its symbols.
[[nodiscard]] std::string kernel_name(const void* kernel);

}  // namespace trireme::cuda
