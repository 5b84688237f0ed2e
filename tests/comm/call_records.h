// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/comm/call_record.h"

namespace trireme::test {

inline CallRecord record(Verb verb, int peer = -1, std::int64_t count = 12) {
  CallRecord result;
  result.kind = static_cast<std::int32_t>(verb);
  result.peer = peer;
  result.count = count;
  return result;
}

}  // namespace trireme::test
