// SPDX-License-Identifier: Apache-2.0
// Where batches lie: what a Loader allocates, known from the samples' shapes alone.
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
  std::int64_t workers = 2;   // threads that read
  std::int64_t prefetch = 4;  // host buffers of one micro-batch each
  std::int64_t held = 1;  // latest batches that stay valid on the device; a pipeline needs several
  // Rows of tokens are cut into sequences, whose length depends on the step; nothing: they are
  // whole.
  std::optional<BatchRamp> context{};
};

// One batch of `rows` samples in one buffer, laid out alike on host and device, so that moving it
// is one copy.
struct BatchMemory {
  BatchMemory(Device& device, const SampleLayout& sample, std::int64_t rows, MemoryKind kind);
  Buffer buffer;
  Batch batch;  // views into it
};

struct LoaderMemory {
  LoaderMemory(Device& device, const SampleLayout& sample, std::int64_t rows,
               const LoaderOptions& options);
  std::vector<BatchMemory> host;    // options.prefetch
  std::vector<BatchMemory> device;  // options.held, and the one on its way
};

}  // namespace trireme
