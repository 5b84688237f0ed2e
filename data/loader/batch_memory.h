// SPDX-License-Identifier: Apache-2.0
// Memory of batches: what a Loader allocates, computed from the samples' shapes alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/sets/dataset.h"
#include "runtime/config/batch_ramp.h"
#include "runtime/device/device.h"
#include "runtime/nn/batch.h"

namespace trireme {

struct LoaderOptions {
  std::int64_t workers = 2;   // reader threads
  std::int64_t prefetch = 4;  // host buffers of one micro-batch each
  std::int64_t held = 1;  // latest batches that stay valid on the device; pipelines need several
  // Ramp of sequence lengths, into which token rows are cut; empty: rows stay whole.
  std::optional<BatchRamp> context{};
};

// A batch of `rows` samples in one buffer, with the same layout on host and device, so one copy
// moves it.
struct BatchMemory {
  BatchMemory(Device& device, const SampleLayout& sample, std::int64_t rows, MemoryKind kind);
  Buffer buffer;
  Batch batch;  // views into it
};

// Fills document_bounds of a host's batch by its document_starts, if it has them. False if there
// are more documents than places.
[[nodiscard]] bool bound_documents(const Batch& batch);

struct LoaderMemory {
  LoaderMemory(Device& device, const SampleLayout& sample, std::int64_t rows,
               const LoaderOptions& options);
  std::vector<BatchMemory> host;    // options.prefetch
  std::vector<BatchMemory> device;  // options.held, and the one in transit
};

}  // namespace trireme
