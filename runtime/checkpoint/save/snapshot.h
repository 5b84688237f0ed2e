// SPDX-License-Identifier: Apache-2.0
// A copy of this rank's state for a save, in page-locked memory that is allocated once, so that
// training continues during the write.
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

  // Touches the memory's pages before training waits for a copy into them. The constructor cannot,
  // because it also runs where memory is only counted (engine/memory_plan.h).
  void touch();
  // Enqueues the copies, in stream order; does not block the host.
  void take(Stream& stream);
  // Blocks until the copies are done; returns their duration in milliseconds.
  [[nodiscard]] double wait() const;

  [[nodiscard]] std::span<const OwnSlice> slices() const { return slices_; }
  // The values of all slices, contiguous; statistics have no moments. Valid after wait(). Aligned
  // for DirectFile.
  [[nodiscard]] std::span<const std::byte> values(ValueKind kind) const;
  [[nodiscard]] std::uint64_t bytes() const;  // of all values
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> scalars() const;

 private:
  Device& device_;
  CheckpointValues from_;
  std::vector<OwnSlice> slices_;
  struct Values {
    Buffer memory;
    std::span<std::byte> aligned;  // part of it
  };
  std::array<Values, value_kinds.size()> values_;
  std::vector<Buffer> scalars_;
  std::unique_ptr<Event> begun_, taken_;
  std::unique_ptr<Event> copied_;  // follows taken_; for the writing thread
};

}  // namespace trireme
