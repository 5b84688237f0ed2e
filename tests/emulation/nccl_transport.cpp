// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/nccl_transport.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "runtime/base/dtype.h"
#include "tests/emulation/order/accesses.h"
#include "tests/emulation/order/messages.h"
#include "tests/emulation/waits.h"

namespace trireme::emulated {
namespace {

constexpr std::chrono::microseconds pause_between_polls{20};
// Like the library, one queue per pair of ranks for all messages.
constexpr int message_tag = 1;
constexpr int collective_tag = 2;

template <typename T, typename Wide>
void combine_as(ncclRedOp_t op, std::byte* into, const std::byte* from, std::size_t count) {
  auto* const a = reinterpret_cast<T*>(into);
  const auto* const b = reinterpret_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<Wide>(a[i]);
    const auto y = static_cast<Wide>(b[i]);
    const Wide result = op == ncclSum   ? static_cast<Wide>(x + y)
                        : op == ncclMax ? (x > y ? x : y)
                                        : (x < y ? x : y);
    a[i] = static_cast<T>(result);
  }
}

void combine(ncclDataType_t type, ncclRedOp_t op, std::byte* into, const std::byte* from,
             std::size_t count) {
  switch (type) {
    case ncclInt8:
      return combine_as<std::int8_t, std::int32_t>(op, into, from, count);
    case ncclUint8:
      return combine_as<std::uint8_t, std::uint32_t>(op, into, from, count);
    case ncclInt32:
      return combine_as<std::int32_t, std::int64_t>(op, into, from, count);
    case ncclUint32:
      return combine_as<std::uint32_t, std::uint32_t>(op, into, from, count);
    case ncclInt64:
      return combine_as<std::int64_t, std::int64_t>(op, into, from, count);
    case ncclUint64:
      return combine_as<std::uint64_t, std::uint64_t>(op, into, from, count);
    case ncclFloat16:
      return combine_as<_Float16, float>(op, into, from, count);
    case ncclFloat32:
      return combine_as<float, float>(op, into, from, count);
    case ncclFloat64:
      return combine_as<double, double>(op, into, from, count);
    case ncclBfloat16:
      return combine_as<bf16, float>(op, into, from, count);
    case ncclNumTypes:
      return;
  }
}

std::string text_of(const NcclTransport& transport, const std::string& group,
                    const std::vector<NcclOp>& ops) {
  constexpr std::array names{"all_reduce", "reduce_scatter", "all_gather",  "all_to_all",
                             "broadcast",  "send to",        "receive from"};
  std::string text =
      "kernel of NCCL group " + group + ", rank " + std::to_string(transport.rank) + ":";
  for (const NcclOp& op : ops) {
    text += std::string(" ") + names[static_cast<std::size_t>(op.kind)];
    if (op.kind == NcclOp::Kind::send || op.kind == NcclOp::Kind::recv)
      text += " rank " + std::to_string(op.peer);
    text += " of " + std::to_string(op.count * nccl_size_of(op.type)) + " bytes;";
  }
  return text;
}

class Kernel {
 public:
  Kernel(NcclTransport& transport, const std::vector<NcclOp>& ops)
      : transport_(transport), clocks_(std::ranges::all_of(ops, [](const NcclOp& op) {
          return op.kind == NcclOp::Kind::send;
        })) {}

  void start(const NcclOp& op) {
    const std::size_t bytes = op.count * nccl_size_of(op.type);
    const auto at = [&](int rank) { return bytes * static_cast<std::size_t>(rank); };
    using Kind = NcclOp::Kind;
    note(op, bytes);
    switch (op.kind) {
      case Kind::send:
        return send(op.in, bytes, op.peer, message_tag);
      case Kind::recv:
        return receive(op.out, bytes, op.peer, message_tag);
      case Kind::all_to_all:
        for (int peer = 0; peer < size(); ++peer) {
          receive(op.out + at(peer), bytes, peer, message_tag);
          send(op.in + at(peer), bytes, peer, message_tag);
        }
        return;
      case Kind::broadcast:
        if (op.peer == rank()) std::memmove(op.out, op.in, bytes);
        for (int peer = 0; op.peer == rank() && peer < size(); ++peer) {
          if (peer != rank()) send(op.in, bytes, peer, collective_tag);
        }
        if (op.peer != rank()) receive(op.out, bytes, op.peer, collective_tag);
        return;
      case Kind::all_gather:
        std::memmove(op.out + at(rank()), op.in, bytes);
        for (int peer = 0; peer < size(); ++peer) {
          if (peer == rank()) continue;
          receive(op.out + at(peer), bytes, peer, collective_tag);
          send(op.out + at(rank()), bytes, peer, collective_tag);
        }
        return;
      case Kind::all_reduce:
      case Kind::reduce_scatter:
        return start_reduction(op, bytes);
    }
  }

  // False: aborted, or failed and then aborted.
  bool wait(const std::string& group, const std::vector<NcclOp>& ops) {
    std::vector<MPI_Status> statuses(requests_.size());
    std::optional<ScopedWait> waiting;
    for (int done = 0; done == 0;) {
      const int code =
          MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses.data());
      if (code != MPI_SUCCESS) {
        transport_.error = ncclInternalError;
        wait_for_abort(transport_);
      }
      if (transport_.aborted) return false;
      if (done != 0) break;
      if (!waiting) waiting.emplace(text_of(transport_, group, ops));
      std::this_thread::sleep_for(pause_between_polls);
    }
    clocks_.merge();
    return true;
  }

  void finish() {
    for (const Reduction& reduction : reductions_) {
      const NcclOp& op = reduction.op;
      const std::size_t bytes = op.count * nccl_size_of(op.type);
      std::byte* const sum = reduction.parts + bytes * static_cast<std::size_t>(size() - 1);
      for (int from = size() - 2; from >= 0; --from) {
        combine(op.type, op.op, sum, reduction.parts + bytes * static_cast<std::size_t>(from),
                op.count);
      }
      std::memcpy(op.out, sum, bytes);
    }
  }

 private:
  struct Reduction {
    NcclOp op;
    std::byte* parts;  // one per rank
  };

  [[nodiscard]] int rank() const { return transport_.rank; }
  [[nodiscard]] int size() const { return transport_.size; }

  void start_reduction(const NcclOp& op, std::size_t bytes) {
    const bool scatter = op.kind == NcclOp::Kind::reduce_scatter;
    std::vector<std::byte>& parts = memory_.emplace_back(bytes * static_cast<std::size_t>(size()));
    for (int peer = 0; peer < size(); ++peer) {
      const std::byte* const theirs =
          op.in + (scatter ? bytes * static_cast<std::size_t>(peer) : 0);
      std::byte* const part = parts.data() + bytes * static_cast<std::size_t>(peer);
      if (peer == rank()) {
        std::memcpy(part, theirs, bytes);
        continue;
      }
      receive(part, bytes, peer, collective_tag);
      send(theirs, bytes, peer, collective_tag);
    }
    reductions_.push_back({op, parts.data()});
  }

  // Reports a call's reads and writes.
  void note(const NcclOp& op, std::size_t bytes) const {
    using Kind = NcclOp::Kind;
    const std::size_t whole = bytes * static_cast<std::size_t>(size());
    const bool reads_all = op.kind == Kind::reduce_scatter || op.kind == Kind::all_to_all;
    const bool writes_all = op.kind == Kind::all_gather || op.kind == Kind::all_to_all;
    const bool reads = op.kind != Kind::broadcast || op.peer == rank();
    if (op.in != nullptr && reads) order::read(op.in, reads_all ? whole : bytes);
    if (op.out != nullptr) order::wrote(op.out, writes_all ? whole : bytes);
  }
  void send(const std::byte* data, std::size_t bytes, int to, int tag) {
    clocks_.send(transport_.comm, to, tag, requests_);
    MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, transport_.comm,
              &requests_.emplace_back());
  }
  void receive(std::byte* data, std::size_t bytes, int from, int tag) {
    clocks_.receive(transport_.comm, from, tag, requests_);
    MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, transport_.comm,
              &requests_.emplace_back());
  }

  NcclTransport& transport_;
  std::vector<MPI_Request> requests_;
  std::deque<std::vector<std::byte>> memory_;
  order::Messages clocks_;
  std::vector<Reduction> reductions_;
};

}  // namespace

std::size_t nccl_size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  return 0;
}

void wait_for_abort(const NcclTransport& transport) {
  const ScopedWait waiting("an NCCL kernel that has failed");
  while (!transport.aborted)
    std::this_thread::sleep_for(pause_between_polls);
}

void run_nccl_kernel(NcclTransport& transport, const std::string& group,
                     const std::vector<NcclOp>& ops) {
  auto kernel = std::make_unique<Kernel>(transport, ops);
  for (const NcclOp& op : ops)
    kernel->start(op);
  if (kernel->wait(group, ops)) {
    kernel->finish();
  } else {
    // A late message may still arrive, so its memory must stay valid.
    static_cast<void>(kernel.release());
  }
}

}  // namespace trireme::emulated
