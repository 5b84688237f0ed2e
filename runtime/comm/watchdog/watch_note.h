// SPDX-License-Identifier: Apache-2.0
// Private to this room: what watchdogs of different ranks say to each other, once a deadline has
// passed.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/comm/call_record.h"

namespace trireme {

// An ask makes its receiver write its dump and send the note back as an answer.
struct WatchNote {
  enum class Kind : std::int32_t { ask, answer };
  enum class Verdict : std::int32_t {
    none,       // the ask was only for the dump
    waits_too,  // the receiver is in this call as well
    over,       // the receiver is done with this call
    differs,    // the receiver's call of this number is another one
    late        // the receiver has not come to this call
  };
  Kind kind = Kind::ask;
  std::int32_t from = 0;    // rank in the job
  std::uint64_t group = 0;  // CallLog::group()
  CallRecord call;          // what the asking rank waits in
  std::int32_t asker = 0;   // rank in the group
  std::int32_t question = 0;
  std::int32_t has_call = 0;
  Verdict verdict = Verdict::none;
  std::array<char, 448> text{};  // what the answering rank does instead
};

}  // namespace trireme
