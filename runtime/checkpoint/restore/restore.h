// SPDX-License-Identifier: Apache-2.0
// Restores a checkpoint of any layout into ranks of any other layout.
#pragma once

#include <span>
#include <string>

#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/checkpoint/slices.h"

namespace trireme {

struct RestoreReport {
  std::uint64_t bytes = 0;  // read by this rank
  double milliseconds = 0;
};

// Why a model cannot continue from a checkpoint: missing tensors, differing shapes, missing values.
// "" if it can. For messages: one line each.
[[nodiscard]] std::string differences(const Manifest& manifest, std::span<const PlacedParam> placed,
                                      const CheckpointValues& values);

// Fills this rank's masters, moments, averages and scalars, and refreshes the compute copies. Each
// rank reads only its part, without communication. The checkpoint must be verified
// (find_newest_valid). Blocks the host; `stream` must not use the values. Raises
// ExitCode::checkpoint with the differences before anything is changed.
RestoreReport restore_checkpoint(const FoundCheckpoint& from, Device& device, Stream& stream,
                                 std::span<const PlacedParam> placed,
                                 const CheckpointValues& values);

// Which of the weights in a file a model takes.
struct WeightSelection {
  // Patterns (config/param_rules.h): of tensors in the file that are not read; of the model's
  // that keep what they hold.
  std::vector<std::string> skip{}, reinitialise{};
  // Tokens that the file and the model know. If the model knows more, rows of the token table, of
  // an untied head and its bias behind the former become the mean of those before.
  std::int64_t tokens_there = 0, tokens_here = 0;
};

// Only weights and statistics, from any source (run_state.h); `from` names it in messages. Moments,
// averages, scalars, and adapters that `stored` lacks stay as they are. Raises ExitCode::checkpoint
// with the differences before anything is changed, ExitCode::config for a pattern to skip that
// matches nothing.
RestoreReport restore_weights(StoredValues stored, const std::string& from, Device& device,
                              Stream& stream, std::span<const PlacedParam> placed,
                              ParamStore& params, const WeightSelection& selection = {});

}  // namespace trireme
