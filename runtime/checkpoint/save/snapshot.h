// SPDX-License-Identifier: Apache-2.0
// A copy of what this rank writes, in page-locked memory that is allocated once: training goes on
// while it is written.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "runtime/checkpoint/slices.h"

namespace trireme {

class Snapshot {
 public:
  Snapshot(Device& device, const ProcessMesh& mesh, const CheckpointValues& values,
           std::span<const ManifestTensor> tensors);

  // Makes the pages of the memory be there before training waits for a copy into them. Not in the
  // constructor, which also runs where memory is only counted (engine/memory_plan.h).
  void touch();
  // Enqueues the copies; what was enqueued before is in them, what comes after is not. The host
  // does not wait.
  void take(Stream& stream);
  // Blocks until the copies are done; the milliseconds that they took.
  [[nodiscard]] double wait() const;

  [[nodiscard]] std::span<const OwnSlice> slices() const { return slices_; }
  // The values of all slices, one after another; statistics have no moments. Once wait()
  // has returned. Aligned for DirectFile.
  [[nodiscard]] std::span<const std::byte> values(ValueKind kind) const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> scalars() const;

 private:
  Device& device_;
  CheckpointValues from_;
  std::vector<OwnSlice> slices_;
  struct Values {
    Buffer memory;
    std::span<std::byte> aligned;  // within it
  };
  std::array<Values, value_kinds.size()> values_;
  std::vector<Buffer> scalars_;
  std::unique_ptr<Event> begun_, taken_;
  std::unique_ptr<Event> copied_;  // behind taken_, for the thread that writes
};

}  // namespace trireme
