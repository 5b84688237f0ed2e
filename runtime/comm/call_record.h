// SPDX-License-Identifier: Apache-2.0
// Private to this module: the description of a call that ranks exchange and compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/comm/call.h"
#include "runtime/comm/comm_label.h"

namespace trireme {

struct CallRecord {
  static constexpr std::int32_t barrier = 100;
  static constexpr std::int32_t split = 101;

  std::uint64_t sequence = 0;  // number of the group's collectives so far
  std::int64_t count = 0;
  std::int32_t kind = 0;  // a Verb, or barrier or split
  std::int16_t dtype = 0;
  std::int16_t op = 0;
  std::int32_t doubled = 0;
  std::int32_t peer = 0;  // root, or the other rank of a message
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};
static_assert(sizeof(CallRecord) == 32, "no padding: it travels as bytes");

[[nodiscard]] CallRecord record_of(const Call& call, std::uint64_t sequence);
[[nodiscard]] CallRecord host_record(std::int32_t kind, std::uint64_t sequence);
[[nodiscard]] std::string to_string(const CallRecord& record);
[[nodiscard]] bool is_message(const CallRecord& record);    // send or recv
[[nodiscard]] bool is_host_call(const CallRecord& record);  // barrier or split
// The records as a u8 tensor, for communication.
[[nodiscard]] Tensor as_bytes(std::span<CallRecord> records);

// `records[r]` is rank r's call. Raises ExitCode::communication naming the first two ranks that
// disagree; `label` is this rank's.
void compare_collective(std::span<const CallRecord> records, const std::string& group,
                        const CommLabel& label);
// Compares what `sender` sends with what `receiver` expects.
void compare_message(const CallRecord& sent, int sender, const CallRecord& expected, int receiver,
                     const std::string& group, const CommLabel& label);

}  // namespace trireme
