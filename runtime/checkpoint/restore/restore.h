// SPDX-License-Identifier: Apache-2.0
// From a checkpoint of any layout to the memory of a rank of any other.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/checkpoint/slices.h"

namespace trireme {

struct RestoreReport {
  std::uint64_t bytes = 0;  // that this rank read
  double milliseconds = 0;
};

// What keeps a model from being continued from a checkpoint: tensors that one of them lacks or
// whose shapes differ, values that are not in it. "" when nothing does. For messages: one line
// each.
[[nodiscard]] std::string differences(const Manifest& manifest, std::span<const PlacedParam> placed,
                                      const CheckpointValues& values);

// Fills masters, moments, averages and scalars of this rank, and refreshes the compute copies;
// each rank reads only what it holds, and waits for nobody. The checkpoint was verified
// (find_newest_valid). Blocks the host; `stream` must be idle for the values. Raises
// ExitCode::checkpoint with the differences, if there are any, before anything is changed.
RestoreReport restore_checkpoint(const FoundCheckpoint& from, Device& device, Stream& stream,
                                 std::span<const PlacedParam> placed,
                                 const CheckpointValues& values);

// The weights and statistics alone, from wherever they lie (run_state.h); `from` names that in
// messages. Moments, averages and scalars stay as they are. Raises ExitCode::checkpoint with the
// differences before anything is changed. Adapters that `stored` has none of stay as they are too.
RestoreReport restore_weights(const StoredValues& stored, const std::string& from, Device& device,
                              Stream& stream, std::span<const PlacedParam> placed,
                              ParamStore& params);

}  // namespace trireme
