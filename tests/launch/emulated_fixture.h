// SPDX-License-Identifier: Apache-2.0
// Runs of trireme_emulated: the whole engine on GPUs that tests/emulation stands in for.
#pragma once

#include <cstdlib>

#include "tests/launch/layout_fixture.h"

namespace trireme::test {

// Sets a variable of the environment, which the runs inherit, until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

class EmulatedTest : public LayoutTest {
 protected:
  // Small, for a kernel runs some hundred times as slowly as on a GPU; buckets of one layer.
  static Run gpt(const Settings& more = {}) {
    return made(Family::gpt,
                {"model.dropout=0.1", "model.heads=4", "model.context=8", "model.hidden=16",
                 "train.eval_batches=1", "parallel.bucket_megabytes=0.01"},
                more);
  }
  static Run resnet(const Settings& more = {}) {
    return made(Family::resnet, {"parallel.bucket_megabytes=0.01"}, more);
  }

 private:
  static Run made(Family family, Settings set, const Settings& more) {
    set.insert(set.end(), {"train.steps=4", "device.type=cuda"});
    set.insert(set.end(), more.begin(), more.end());
    return {.family = family, .set = set, .steps = 4};
  }

  // A GPU for each rank, and for each stream a thread, as NCCL needs. The engine is held to all that
  // CUDA and NCCL promise and demand.
  ScopedVariable contracts_{"TRIREME_EMULATED_CONTRACTS", "all"};
  ScopedVariable gpus_{"TRIREME_EMULATED_GPUS", "4"};
  ScopedVariable streams_{"TRIREME_EMULATED_STREAMS", "threads"};
};

}  // namespace trireme::test
