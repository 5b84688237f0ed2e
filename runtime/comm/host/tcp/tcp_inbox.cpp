// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_inbox.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/comm/host/transfers.h"

namespace trireme {
namespace {

constexpr std::size_t min_room = std::size_t{64} << 10;
// No machine has this much memory: a longer length is garbage.
constexpr std::uint64_t longest_message = std::uint64_t{1} << 48;

bool is_message_tag(std::int32_t tag) {
  return tag == static_cast<int>(MessageTag::user) ||
         tag == static_cast<int>(MessageTag::collective) ||
         tag == static_cast<int>(MessageTag::note);
}

}  // namespace

void TcpRequest::finish(std::size_t arrived) {
  if (arrived != bytes)
    problem = fmt::format("a message of {} bytes does not fit a receive of {}", arrived, bytes);
  done.store(true, std::memory_order_release);
}

TcpInbox::TcpInbox(int size, TcpInboxLimits limits)
    : limits_(limits), incoming_(static_cast<std::size_t>(size)), nowhere_(min_room) {}

std::span<std::byte> TcpInbox::space(int from) {
  const std::lock_guard lock(mutex_);
  Incoming& peer = at(from);
  if (peer.left) return {};
  if (peer.got < sizeof(TcpHeader))
    return std::as_writable_bytes(std::span(&peer.header, 1)).subspan(peer.got);
  if (!peer.placed) return {};
  const std::size_t done = peer.got - sizeof(TcpHeader);
  const std::size_t left = peer.header.bytes - done;
  if (peer.request) return {peer.request->into + done, left};
  if (!peer.early) return std::span(nowhere_).first(std::min(left, nowhere_.size()));
  // Memory grows with received bytes, not with the announced length.
  std::vector<std::byte>& bytes = peer.early->bytes;
  if (bytes.size() == done) bytes.resize(done + std::min(left, std::max(done, min_room)));
  return std::span(bytes).subspan(done);
}

TcpInbox::Event TcpInbox::arrived(int from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Incoming& peer = at(from);
  const bool was_header = peer.got < sizeof(TcpHeader);
  peer.got += bytes;
  if (peer.got < sizeof(TcpHeader)) return Event::none;
  if (was_header) {
    check(peer.header);
    if (peer.header.tag == tcp_abort_tag) return Event::abort;
    if (peer.header.tag == tcp_farewell_tag) {
      peer.left = true;
      return Event::farewell;
    }
    if (!place(from)) return Event::none;
  }
  if (peer.got == sizeof(TcpHeader) + peer.header.bytes) finish(from);
  return Event::none;
}

void TcpInbox::check(const TcpHeader& header) const {
  const bool own = header.tag == tcp_farewell_tag || header.tag == tcp_abort_tag;
  if (own ? header.bytes == 0 : is_message_tag(header.tag) && header.bytes <= longest_message)
    return;
  fail(ExitCode::communication, "tag {}, {} bytes", header.tag, header.bytes);
}

// Whether the destination of the message that begins is known.
bool TcpInbox::place(int from) {
  Incoming& peer = at(from);
  const std::size_t bytes = peer.header.bytes;
  const Key key{from, peer.header.channel, peer.header.tag};
  if (const auto found = wanted_.find(key); found != wanted_.end()) {
    peer.request = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) wanted_.erase(found);
    // A message that does not fit is read and dropped.
    if (peer.request->bytes != bytes) std::exchange(peer.request, nullptr)->finish(bytes);
  } else if (peer.early_messages < limits_.early_messages &&
             bytes <= limits_.early_bytes - peer.early_bytes) {
    peer.early = std::make_shared<Early>();
    peer.early->total = bytes;
    early_[key].push_back(peer.early);
    peer.early_bytes += bytes;
    ++peer.early_messages;
  } else {
    peer.waits = true;
    return false;
  }
  peer.waits = false;
  peer.placed = true;
  return true;
}

void TcpInbox::finish(int from) {
  Incoming& peer = at(from);
  peer.got = 0;
  peer.placed = false;
  if (peer.request) return std::exchange(peer.request, nullptr)->finish(peer.header.bytes);
  const auto early = std::exchange(peer.early, nullptr);
  if (!early) return;
  early->whole = true;
  if (early->wanted == nullptr) return;
  deliver(from, *early, *early->wanted);
  forget({from, peer.header.channel, peer.header.tag}, early);
}

void TcpInbox::deliver(int from, const Early& early, TcpRequest& request) {
  if (request.bytes > 0 && early.total == request.bytes)
    std::memcpy(request.into, early.bytes.data(), early.total);
  Incoming& peer = at(from);
  peer.early_bytes -= std::min(peer.early_bytes, early.total);
  peer.early_messages -= std::min<std::size_t>(peer.early_messages, 1);
  request.finish(early.total);
}

void TcpInbox::forget(const Key& key, const std::shared_ptr<Early>& early) {
  const auto found = early_.find(key);
  std::erase(found->second, early);
  if (found->second.empty()) early_.erase(found);
}

// Its message may now have a destination; an empty one is complete with that, without further
// input.
bool TcpInbox::wake(int from) {
  if (!at(from).waits || !place(from)) return false;
  if (at(from).header.bytes == 0) finish(from);
  return true;
}

bool TcpInbox::receive(int from, TcpChannel channel, int tag, std::shared_ptr<TcpRequest> request) {
  const std::lock_guard lock(mutex_);
  const Key key{from, channel, tag};
  // Takes messages that arrived early in order.
  if (const auto found = early_.find(key); found != early_.end()) {
    for (const std::shared_ptr<Early>& early : found->second) {
      if (early->wanted != nullptr) continue;
      if (!early->whole) {
        early->wanted = std::move(request);
        return false;
      }
      deliver(from, *early, *request);
      forget(key, std::shared_ptr<Early>(early));
      return wake(from);
    }
  }
  wanted_[key].push_back(std::move(request));
  return wake(from);
}

void TcpInbox::put(int from, TcpChannel channel, int tag, TcpRequest& request) {
  const std::lock_guard lock(mutex_);
  const Key key{from, channel, tag};
  const auto early = std::make_shared<Early>();
  early->bytes.assign(request.from, request.from + request.bytes);
  early->total = request.bytes;
  early->whole = true;
  request.done.store(true, std::memory_order_release);
  // No limit for messages to itself; deliver() subtracts what is added here.
  at(from).early_bytes += early->total;
  ++at(from).early_messages;
  if (const auto found = wanted_.find(key); found != wanted_.end()) {
    deliver(from, *early, *found->second.front());
    found->second.pop_front();
    if (found->second.empty()) wanted_.erase(found);
    return;
  }
  early_[key].push_back(early);
}

TcpInbox::Found TcpInbox::receive_arrived(TcpChannel channel, int tag, std::byte* into,
                                          std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (int from = 0; from < static_cast<int>(incoming_.size()); ++from) {
    const Key key{from, channel, tag};
    const auto found = early_.find(key);
    if (found == early_.end() || !found->second.front()->whole) continue;
    const auto early = found->second.front();
    TcpRequest request;
    request.into = into;
    request.bytes = bytes;
    deliver(from, *early, request);
    forget(key, early);
    return wake(from) ? Found::message_and_go_on : Found::message;
  }
  return Found::nothing;
}

bool TcpInbox::waits(int from) {
  const std::lock_guard lock(mutex_);
  return at(from).waits;
}

bool TcpInbox::has_left(int from) {
  const std::lock_guard lock(mutex_);
  return at(from).left;
}

int TcpInbox::abort_code(int from) const {
  // Only the lowest byte of an exit code reaches the parent process.
  constexpr int max = 255;
  const int code = incoming_[static_cast<std::size_t>(from)].header.code;
  return code >= 1 && code <= max ? code : static_cast<int>(ExitCode::communication);
}

std::size_t TcpInbox::early_bytes(int from) {
  const std::lock_guard lock(mutex_);
  return at(from).early_bytes;
}

}  // namespace trireme
