// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/watchdog/watch_channel.h"

#include <exception>
#include <type_traits>

#include "runtime/comm/host/transfers.h"

namespace trireme {

static_assert(std::is_trivially_copyable_v<WatchNote>, "it travels as bytes");

WatchChannel::WatchChannel() : transfers_(make_job_transfers()) {}

WatchChannel::~WatchChannel() {
  // With notes in flight the job is ending; a rank that unwinds cannot rely on its peers.
  if (transfers_ && (!outgoing_.empty() || std::uncaught_exceptions() > 0)) transfers_->abandon();
}

void WatchChannel::send(int to, const WatchNote& note) {
  const WatchNote& kept = outgoing_.emplace_back(note);
  transfers_->send(reinterpret_cast<const std::byte*>(&kept), sizeof(kept), to, MessageTag::note);
}

bool WatchChannel::receive(WatchNote& note) {
  return transfers_ && transfers_->receive_note(reinterpret_cast<std::byte*>(&note), sizeof(note));
}

}  // namespace trireme
