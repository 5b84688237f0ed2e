// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/step_observer.h"

namespace trireme {

[[gnu::weak]] StepObserver* planted_faults() {
  return nullptr;
}

}  // namespace trireme
