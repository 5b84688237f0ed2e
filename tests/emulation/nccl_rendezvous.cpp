// SPDX-License-Identifier: Apache-2.0
// After ncclTransportP2pSetup (src/transport.cc of NCCL 2.28.9): rank r handles the ranks r + i and
// r - i together, for i = 1, 2, ...; bootstrapSend does not wait, bootstrapRecv does; at the end
// each pair tells each other that it is done.
#include "tests/emulation/nccl_rendezvous.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>

#include "tests/emulation/waits.h"

namespace trireme::emulated {
namespace {

constexpr std::chrono::microseconds pause_between_looks_for_peer{50};
constexpr std::size_t tree_below = 16384;  // bytes of an all-reduce
enum Kind { messages, tree, ring };
constexpr int kinds = 3;
constexpr int first_tag = 100;

class Setup {
 public:
  Setup(const NcclTransport& transport, const std::string& group, const NcclSetup& setup)
      : transport_(transport), group_(group), setup_(setup) {}

  ncclResult_t run() {
    for (const int phase : {0, 1}) {
      for (int i = 1; i < transport_.size; ++i) {
        tag_ = first_tag + (i * kinds + setup_.kind) * 2 + phase;
        const ncclResult_t result = meet((transport_.rank + i) % transport_.size,
                                         (transport_.rank - i + transport_.size) % transport_.size);
        if (result != ncclSuccess) return result;
      }
    }
    return ncclSuccess;
  }

 private:
  [[nodiscard]] bool sends(int peer) const {
    return setup_.send_to[static_cast<std::size_t>(peer)];
  }
  [[nodiscard]] bool receives(int peer) const {
    return setup_.recv_from[static_cast<std::size_t>(peer)];
  }

  ncclResult_t meet(int to, int from) {
    if (to == from) {
      if (!sends(to) && !receives(to)) return ncclSuccess;
      // One message has both directions: its length must match the peer's expectation.
      tell(to, (sends(to) ? 1 : 0) + (receives(to) ? 2 : 0));
      return hear(to, (sends(to) ? 2 : 0) + (receives(to) ? 1 : 0));
    }
    if (receives(from)) tell(from, 2);
    if (sends(to)) tell(to, 1);
    if (sends(to)) {
      if (const ncclResult_t result = hear(to, 2); result != ncclSuccess) return result;
    }
    return receives(from) ? hear(from, 1) : ncclSuccess;
  }

  void tell(int peer, int what) {
    const auto byte = static_cast<std::byte>(what);
    MPI_Send(&byte, 1, MPI_BYTE, peer, tag_, transport_.comm);  // so short that it does not wait
  }

  ncclResult_t hear(int peer, int expected) {
    std::byte byte{};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(&byte, 1, MPI_BYTE, peer, tag_, transport_.comm, &request);
    std::optional<ScopedWait> waiting;
    for (int done = 0;;) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return ncclSystemError;
      if (done != 0) break;
      if (transport_.aborted) {
        MPI_Cancel(&request);
        MPI_Request_free(&request);
        return ncclInProgress;
      }
      if (!waiting) waiting.emplace(text(peer, expected));
      std::this_thread::sleep_for(pause_between_looks_for_peer);
    }
    return static_cast<int>(byte) == expected ? ncclSuccess : ncclInternalError;
  }

  [[nodiscard]] std::string text(int peer, int expected) const {
    const std::string what = setup_.kind != messages ? "the first collective"
                             : expected == 1         ? "the first send"
                             : expected == 2         ? "the first receive"
                                                     : "the first send and receive in one group";
    return "NCCL group " + group_ + ": rank " + std::to_string(transport_.rank) +
           " connects, and waits for " + what + " that rank " + std::to_string(peer) +
           " posts for it";
  }

  const NcclTransport& transport_;
  const std::string& group_;
  const NcclSetup& setup_;
  int tag_ = 0;
};

NcclSetup setup_of(Kind kind, const NcclTransport& transport) {
  NcclSetup setup{.kind = kind};
  setup.send_to.resize(static_cast<std::size_t>(transport.size));
  setup.recv_from = setup.send_to;
  const int size = transport.size, next = transport.rank + 1, previous = transport.rank - 1;
  const auto mark = [size](std::vector<bool>& of, int peer) {
    of[static_cast<std::size_t>((peer + size) % size)] = true;
  };
  if (kind == ring || (kind == tree && next < size)) mark(setup.send_to, next);
  if (kind == ring || (kind == tree && previous >= 0)) mark(setup.recv_from, previous);
  if (kind == tree && previous >= 0) mark(setup.send_to, previous);
  if (kind == tree && next < size) mark(setup.recv_from, next);
  return setup;
}

}  // namespace

std::vector<NcclSetup> NcclConnections::add(const NcclTransport& transport,
                                            const std::vector<NcclOp>& ops) {
  NcclSetup by_message{.kind = messages};
  by_message.send_to.resize(static_cast<std::size_t>(transport.size));
  by_message.recv_from = by_message.send_to;
  send_to_.resize(by_message.send_to.size());
  recv_from_.resize(by_message.send_to.size());
  bool message = false, by_tree = false, by_ring = false;
  const auto need = [&](std::vector<bool>& of, std::vector<bool>& known, int peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == transport.rank || known[at]) return;
    message = known[at] = of[at] = true;
  };
  for (const NcclOp& op : ops) {
    using OpKind = NcclOp::Kind;
    const bool all = op.kind == OpKind::all_to_all;
    for (int peer = 0; peer < transport.size; ++peer) {
      if (all || (op.kind == OpKind::send && op.peer == peer))
        need(by_message.send_to, send_to_, peer);
      if (all || (op.kind == OpKind::recv && op.peer == peer))
        need(by_message.recv_from, recv_from_, peer);
    }
    if (all || op.kind == OpKind::send || op.kind == OpKind::recv) continue;
    const bool small =
        op.kind == OpKind::all_reduce && op.count * nccl_size_of(op.type) < tree_below;
    (small ? by_tree : by_ring) = true;
  }
  std::vector<NcclSetup> setups;
  if (message) setups.push_back(std::move(by_message));
  if (by_tree && !std::exchange(tree_, true)) setups.push_back(setup_of(tree, transport));
  if (by_ring && !std::exchange(ring_, true)) setups.push_back(setup_of(ring, transport));
  return setups;
}

ncclResult_t connect(const NcclTransport& transport, const std::string& group,
                     const std::vector<NcclSetup>& setups) {
  for (const NcclSetup& setup : setups) {
    if (const auto result = Setup(transport, group, setup).run(); result != ncclSuccess)
      return result;
  }
  return ncclSuccess;
}

}  // namespace trireme::emulated
