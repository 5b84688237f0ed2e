// SPDX-License-Identifier: Apache-2.0
// A device without memory or execution: what is built on it counts its memory as on a real one, on
// any machine, and touches none. For planning: the engine lays everything out before its first
// step, so building it here tells what a run will hold.
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace trireme {

// Says it is of `type`, whether or not the build has that back end. Buffers from 64 KiB on are
// reserved addresses without memory behind them (touching one ends the program), smaller ones are
// real. Streams and events do nothing: whatever is enqueued is never done. An operation is noted
// where a WorkLog is kept, else a contract error. Nothing can be captured.
[[nodiscard]] std::unique_ptr<Device> make_dry_device(DeviceType type);

// The same of `type` for counting a step: where that back end is in the build, its operations run
// on the host (Execution::host) and their launches are noted by name, for a GPU like an H100 SXM5.
[[nodiscard]] std::unique_ptr<Device> make_counting_device(DeviceType type);

// What such devices of a back end are made of. null: no address space is left.
[[nodiscard]] std::byte* reserve_memory(std::size_t bytes) noexcept;
void release_reserved(std::byte* data, std::size_t bytes) noexcept;
[[nodiscard]] std::unique_ptr<Event> make_dry_event();
void note_copy(const void* to, const void* from, std::size_t bytes);
void note_fill(std::size_t bytes);

}  // namespace trireme
