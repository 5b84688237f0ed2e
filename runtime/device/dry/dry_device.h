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
// real. Streams and events do nothing: whatever is enqueued is never done, and an operation that
// dispatches by device type is a contract error. Nothing can be captured.
[[nodiscard]] std::unique_ptr<Device> make_dry_device(DeviceType type);

}  // namespace trireme
