// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "runtime/comm/host/end_of_job.h"
#include "runtime/comm/mpi.h"

namespace trireme {
namespace {

constexpr std::chrono::seconds farewell_patience{30};

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

TcpMesh::TcpMesh(int rank, std::vector<FileDescriptor> sockets)
    : rank_(rank),
      peers_(sockets.size()),
      waker_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      inbox_(static_cast<int>(sockets.size())) {
  if (!waker_.is_open()) system_failed("eventfd", "TCP", ExitCode::communication);
  for (std::size_t i = 0; i < sockets.size(); ++i)
    peers_[i].socket = std::move(sockets[i]);
  thread_ = std::thread([this] { run(); });
}

TcpMesh::~TcpMesh() {
  if (std::uncaught_exceptions() == 0) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) send(peer, 0, tcp_farewell_tag, std::make_shared<TcpRequest>());
    }
    const auto limit = std::chrono::steady_clock::now() + farewell_patience;
    while (!farewells_done() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stopping_ = true;
  wake();
  thread_.join();
}

bool TcpMesh::farewells_done() {
  const std::lock_guard lock(mutex_);
  for (int peer = 0; peer < size(); ++peer) {
    const Peer& at = peers_[static_cast<std::size_t>(peer)];
    if (peer != rank_ && !(inbox_.has_left(peer) && at.outgoing.empty())) return false;
  }
  return true;
}

void TcpMesh::send(int to, Channel channel, int tag, std::shared_ptr<TcpRequest> request) {
  if (to == rank_) return inbox_.put(rank_, channel, tag, *request);
  {
    const std::lock_guard lock(mutex_);
    const TcpHeader header{.channel = channel, .tag = tag, .bytes = request->bytes};
    peers_[static_cast<std::size_t>(to)].outgoing.push_back({header, std::move(request)});
  }
  wake();
}

void TcpMesh::receive(int from, Channel channel, int tag, std::shared_ptr<TcpRequest> request) {
  if (inbox_.receive(from, channel, tag, std::move(request))) wake();
}

bool TcpMesh::receive_arrived(Channel channel, int tag, std::byte* into, std::size_t bytes) {
  const TcpInbox::Found found = inbox_.receive_arrived(channel, tag, into, bytes);
  if (found == TcpInbox::Found::message_and_go_on) wake();
  return found != TcpInbox::Found::nothing;
}

void TcpMesh::wake() const noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(waker_.get(), &one, sizeof(one)));  // full: it is already awake
}

void TcpMesh::abort(int code) noexcept {
  // Messages in flight are void now: the note may follow half a message, which the peer sees as a
  // broken connection. Both end it.
  const TcpHeader header{.tag = tcp_abort_tag, .code = code};
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open() && peer.outgoing.empty())
      static_cast<void>(
          !::send(peer.socket.get(), &header, sizeof(header), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
}

void TcpMesh::lost(int rank, const std::string& how) {
  print_error(
      fmt::format("the connection to rank {} {}: the rank died or its host is gone", rank, how));
  abort_job(static_cast<int>(ExitCode::communication));
}

// A peer that must wait is only polled for its end.
short TcpMesh::events_of(int rank) {
  const bool sends = !peers_[static_cast<std::size_t>(rank)].outgoing.empty();
  if (inbox_.has_left(rank)) return static_cast<short>(sends ? POLLOUT : 0);
  const int reads = inbox_.waits(rank) ? POLLRDHUP : POLLIN;
  return static_cast<short>(sends ? reads | POLLOUT : reads);
}

void TcpMesh::run() {
  std::vector<pollfd> waiting(peers_.size() + 1);
  while (!stopping_) {
    waiting.back() = {waker_.get(), POLLIN, 0};
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        const short events = events_of(static_cast<int>(i));
        waiting[i] = {events == 0 ? -1 : peers_[i].socket.get(), events, 0};
      }
    }
    if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      print_error(fmt::format("poll failed: {}", std::strerror(errno)));
      abort_job(static_cast<int>(ExitCode::communication));
    }
    std::uint64_t ignored = 0;
    if ((waiting.back().revents & POLLIN) != 0)
      static_cast<void>(!::read(waker_.get(), &ignored, sizeof(ignored)));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      const int rank = static_cast<int>(i);
      if ((waiting[i].revents & POLLRDHUP) != 0) lost(rank, "was closed");
      if ((waiting[i].revents & POLLOUT) != 0) write_some(rank);
      if ((waiting[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0) read_some(rank);
    }
  }
}

void TcpMesh::write_some(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  for (;;) {
    Outgoing* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (peer.outgoing.empty()) return;
      next = &peer.outgoing.front();  // has a stable address while others are added
    }
    auto* const head = reinterpret_cast<std::byte*>(&next->header);
    std::array<iovec, 2> parts{};
    const std::size_t head_left = sizeof(TcpHeader) - std::min(next->sent, sizeof(TcpHeader));
    const std::size_t body_sent = next->sent - (sizeof(TcpHeader) - head_left);
    parts[0] = {head + (sizeof(TcpHeader) - head_left), head_left};
    parts[1] = {const_cast<std::byte*>(next->request->from) + body_sent,
                next->request->bytes - body_sent};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(peer.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (would_block() || inbox_.has_left(rank)) return;
      lost(rank, fmt::format("broke ({})", std::strerror(errno)));
    }
    next->sent += static_cast<std::size_t>(sent);
    if (next->sent < sizeof(TcpHeader) + next->request->bytes) continue;
    const auto request = next->request;
    {
      const std::lock_guard lock(mutex_);
      peer.outgoing.pop_front();
    }
    request->done.store(true, std::memory_order_release);
  }
}

void TcpMesh::read_some(int rank) {
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  for (;;) {
    const std::span<std::byte> space = inbox_.space(rank);
    if (space.empty()) return;
    const ssize_t got = ::recv(peer.socket.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && would_block()) return;
    if (got <= 0) lost(rank, got == 0 ? "was closed" : fmt::format("broke ({})", strerror(errno)));
    try {
      if (inbox_.arrived(rank, static_cast<std::size_t>(got)) == TcpInbox::Event::abort)
        abort_job(inbox_.abort_code(rank));
    } catch (const Error& error) {
      print_error(fmt::format(
          "rank {} sent an invalid message ({}): it is damaged, or runs another version", rank,
          error.what()));
      abort_job(static_cast<int>(ExitCode::communication));
    }
  }
}

}  // namespace trireme
