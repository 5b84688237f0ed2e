// SPDX-License-Identifier: Apache-2.0
// What each byte of device memory holds: it is nobody's (the guard zone behind an allocation, what
// was freed), was never written, or has a value. Work that touches the first or reads the second
// ends the program with a report. Copies carry the second along, as a pad between tensors may be
// copied; what they bring to the host must have values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::emulated::order {

void contents_cover(std::uintptr_t first, std::size_t bytes);
void contents_allocated(std::uintptr_t address, std::size_t bytes);
void contents_released(std::uintptr_t address, std::size_t bytes);

// By the work that runs on this thread.
void contents_read(std::uintptr_t address, std::size_t bytes);
void contents_written(std::uintptr_t address, std::size_t bytes);
void contents_copied(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);

}  // namespace trireme::emulated::order
