// SPDX-License-Identifier: Apache-2.0
// The state of each byte of device memory: unallocated (the guard zone behind an allocation, freed
// memory), unwritten, or a value. Work that touches the first or reads the second ends the program
// with a report. Copies propagate the second, since a pad between tensors may be copied; copies to
// the host must have values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::emulated::order {

void contents_cover(std::uintptr_t first, std::size_t bytes);
void contents_allocated(std::uintptr_t address, std::size_t bytes);
void contents_released(std::uintptr_t address, std::size_t bytes);

// Called by the work on this thread.
void contents_read(std::uintptr_t address, std::size_t bytes);
void contents_written(std::uintptr_t address, std::size_t bytes);
void contents_copied(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);

}  // namespace trireme::emulated::order
