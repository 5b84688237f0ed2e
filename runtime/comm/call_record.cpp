// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/call_record.h"

namespace trireme {

CallRecord record_of(const Call& call, std::uint64_t sequence) {
  return {sequence,
          call.count(),
          static_cast<std::int32_t>(call.verb),
          static_cast<std::int16_t>(call.dtype),
          static_cast<std::int16_t>(call.op),
          call.doubled,
          call.peer};
}

CallRecord host_record(std::int32_t kind, std::uint64_t sequence) {
  CallRecord record;
  record.sequence = sequence;
  record.kind = kind;
  return record;
}

std::string to_string(const CallRecord& record) {
  if (record.kind == CallRecord::barrier) return "barrier()";
  if (record.kind == CallRecord::split) return "split()";
  Call call;
  call.verb = static_cast<Verb>(record.kind);
  call.dtype = static_cast<DType>(record.dtype);
  call.op = static_cast<ReduceOp>(record.op);
  call.doubled = record.doubled;
  call.peer = record.peer;
  call.in_count = record.count;
  return call.to_string();
}

bool is_message(const CallRecord& record) {
  return record.kind == static_cast<std::int32_t>(Verb::send) ||
         record.kind == static_cast<std::int32_t>(Verb::recv);
}

bool is_host_call(const CallRecord& record) {
  return record.kind == CallRecord::barrier || record.kind == CallRecord::split;
}

Tensor as_bytes(std::span<CallRecord> records) {
  return {reinterpret_cast<std::byte*>(records.data()), DType::u8,
          Shape{static_cast<std::int64_t>(records.size_bytes())}};
}

void compare_collective(std::span<const CallRecord> records, const std::string& group,
                        const CommLabel& label) {
  for (std::size_t rank = 1; rank < records.size(); ++rank) {
    if (records[rank] == records[0]) continue;
    fail(ExitCode::communication,
         "ranks of group {} disagree on collective number {}{}: rank 0 calls {}, rank {} calls {}",
         group, records[0].sequence, label.to_string(), to_string(records[0]), rank,
         to_string(records[rank]));
  }
}

void compare_message(const CallRecord& sent, int sender, const CallRecord& expected, int receiver,
                     const std::string& group, const CommLabel& label) {
  if (sent.count == expected.count && sent.dtype == expected.dtype) return;
  fail(ExitCode::communication,
       "ranks of group {} disagree on a message{}: rank {} calls {}, rank {} calls {}", group,
       label.to_string(), sender, to_string(sent), receiver, to_string(expected));
}

}  // namespace trireme
