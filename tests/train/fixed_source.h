// SPDX-License-Identifier: Apache-2.0
// The same batch again and again.
#pragma once

#include "launch/engine/engine.h"

namespace trireme::test {

class FixedSource final : public BatchSource {
 public:
  explicit FixedSource(const Batch& batch) : batch_(batch) {}
  const Batch& next(Stream&, Stream&) override { return batch_; }
  [[nodiscard]] double wait_seconds() const override { return 0; }

 private:
  Batch batch_;
};

}  // namespace trireme::test
