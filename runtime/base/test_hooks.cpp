// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/test_hooks.h"

namespace trireme {

[[gnu::weak]] double test_delay(DelayPlace /*place*/) {
  return 0;
}

[[gnu::weak]] void test_step_begins(std::int64_t /*step*/) {}

[[gnu::weak]] bool test_rests(std::int64_t /*step*/) {
  return false;
}

}  // namespace trireme
