// SPDX-License-Identifier: Apache-2.0
// Compares two recorded executions of the same steps and finds the first tensor that differs.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/nn/step_observer.h"

namespace trireme {

// A rank's part of a tensor.
struct RecordedPiece {
  int rank = 0;
  bool received = false;
  bool is_float = true;
  std::vector<std::int64_t> places;  // base, width, stride, first, count (Observed)
  std::uint64_t digest = 0;
  std::int64_t at = -1;  // of its values in the rank's file; -1: none
  std::string name{};

  [[nodiscard]] std::int64_t count() const { return places[4]; }
  // Index of element i in the whole tensor.
  [[nodiscard]] std::int64_t place(std::int64_t i) const;
};

// In step order: phase, micro-batch, place in it.
struct TensorKey {
  std::int64_t step = 0;
  int phase = 0, micro_batch = -1, place = 0;
  std::string parameter{};  // or "inputs", "targets"; "" for layer outputs
  Seen what{};
  int layer = -1;

  friend bool operator<(const TensorKey& a, const TensorKey& b) {
    return std::tie(a.step, a.phase, a.micro_batch, a.place, a.parameter) <
           std::tie(b.step, b.phase, b.micro_batch, b.place, b.parameter);
  }
};

struct Recording {
  std::string directory;
  int ranks = 0;
  std::map<TensorKey, std::vector<RecordedPiece>> tensors{};
  std::set<Seen> kinds{};

  // Elements of all pieces by index in the tensor; earlier pieces win. Raises ExitCode::config.
  [[nodiscard]] std::map<std::int64_t, float> values(
      const std::vector<RecordedPiece>& pieces) const;
};

// Raises ExitCode::config for a missing or broken recording.
[[nodiscard]] Recording read_recording(const std::string& directory);

// Raises ExitCode::config if the recording is of other steps, and so not comparable.
void require_steps(const Recording& recording, std::int64_t first, std::int64_t last);

// A sentence or two on the first tensor of `recording` that differs from `reference`: its name, the
// ranks, both values if recorded, and the likely cause. "" if none differs.
[[nodiscard]] std::string compare_recordings(const Recording& recording,
                                             const Recording& reference);

}  // namespace trireme
