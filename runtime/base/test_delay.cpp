// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/test_delay.h"

namespace trireme {

[[gnu::weak]] bool test_delays() {
  return false;
}

[[gnu::weak]] double test_delay(DelayPlace /*place*/) {
  return 0;
}

}  // namespace trireme
