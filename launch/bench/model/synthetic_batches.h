// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/registry.h"
#include "runtime/config/config.h"
#include "runtime/nn/batch_source.h"

namespace trireme::model_bench {

// Repeats one micro-batch of random tokens or pixels, so that timing a model needs no data set.
class SyntheticBatches final : public BatchSource {
 public:
  SyntheticBatches(Device& device, const Config& config);

  const Batch& next(Stream& copy, Stream& compute) override;
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  Device& device_;
  Buffer host_, memory_;
  Batch batch_;
  bool filled_ = false;
};

// For EngineParts::batches.
[[nodiscard]] std::unique_ptr<BatchSource> synthetic_batches(Device& device, const Config& config);

}  // namespace trireme::model_bench
