// SPDX-License-Identifier: Apache-2.0
// A device without memory or execution, for planning on any machine: it counts memory as on a real
// device and touches none. The engine allocates everything before its first step, so building it
// here gives a run's memory.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

// Claims to be of `type`, whether or not the build has that back end. Buffers from 64 KiB on are
// reserved addresses without memory (touching one ends the program), smaller ones are real. Streams
// and events do nothing. An operation is logged if there is a WorkLog, else a contract error.
// Nothing can be captured.
[[nodiscard]] std::unique_ptr<Device> make_dry_device(DeviceType type);

// The same for counting a step: if the build has the back end of `type`, its operations run on the
// host (Execution::host) and their launches are logged by name, for a GPU like an H100 SXM5.
[[nodiscard]] std::unique_ptr<Device> make_counting_device(DeviceType type);

// Building blocks of such devices. null: no address space is left.
[[nodiscard]] std::byte* reserve_memory(std::size_t bytes) noexcept;
void release_reserved(std::byte* data, std::size_t bytes) noexcept;
[[nodiscard]] std::unique_ptr<Event> make_dry_event();
void note_copy(const void* to, const void* from, std::size_t bytes);
void note_fill(std::size_t bytes);

}  // namespace trireme
