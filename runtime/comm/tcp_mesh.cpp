// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/tcp_mesh.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "runtime/comm/end_of_job.h"
#include "runtime/comm/mpi.h"

namespace trireme {
namespace {

// Tags of the mesh's own messages, which have no bytes.
constexpr std::int32_t farewell_tag = -1;
constexpr std::int32_t abort_tag = -2;
constexpr std::chrono::seconds farewell_patience{30};

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

void TcpRequest::finish(std::size_t arrived) {
  if (arrived != bytes)
    problem = fmt::format("a message of {} bytes met a receive of {}", arrived, bytes);
  done.store(true, std::memory_order_release);
}

TcpMesh::TcpMesh(int rank, std::vector<FileDescriptor> sockets)
    : rank_(rank), peers_(sockets.size()), waker_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!waker_.is_open()) system_failed("eventfd", "TCP", ExitCode::communication);
  for (std::size_t i = 0; i < sockets.size(); ++i)
    peers_[i].socket = std::move(sockets[i]);
  thread_ = std::thread([this] { run(); });
}

TcpMesh::~TcpMesh() {
  if (std::uncaught_exceptions() == 0) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) send(peer, 0, farewell_tag, std::make_shared<TcpRequest>());
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
    if (peer != rank_ && !(at.left && at.outgoing.empty())) return false;
  }
  return true;
}

void TcpMesh::send(int to, Channel channel, int tag, std::shared_ptr<TcpRequest> request) {
  if (to == rank_) return send_to_oneself({to, channel, tag}, *request);
  {
    const std::lock_guard lock(mutex_);
    const Header header{.channel = channel, .tag = tag, .bytes = request->bytes};
    peers_[static_cast<std::size_t>(to)].outgoing.push_back({header, std::move(request)});
  }
  wake();
}

void TcpMesh::receive(int from, Channel channel, int tag, std::shared_ptr<TcpRequest> request) {
  const std::lock_guard lock(mutex_);
  const Key key{from, channel, tag};
  // Messages that arrived early are taken in their order.
  if (const auto found = arrivals_.find(key); found != arrivals_.end()) {
    for (auto& arrival : found->second) {
      if (arrival->wanted != nullptr) continue;
      arrival->wanted = request;
      if (arrival->whole) {
        deliver(arrival, *request);
        std::erase(found->second, arrival);
        if (found->second.empty()) arrivals_.erase(found);
      }
      return;
    }
  }
  wanted_[key].push_back(std::move(request));
}

void TcpMesh::send_to_oneself(const Key& key, TcpRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto arrival = std::make_shared<Arrival>();
  arrival->bytes.assign(request.from, request.from + request.bytes);
  arrival->whole = true;
  request.done.store(true, std::memory_order_release);
  if (const auto found = wanted_.find(key); found != wanted_.end()) {
    deliver(arrival, *found->second.front());
    found->second.pop_front();
    if (found->second.empty()) wanted_.erase(found);
    return;
  }
  arrivals_[key].push_back(arrival);
}

bool TcpMesh::receive_arrived(Channel channel, int tag, std::byte* into, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (int from = 0; from < size(); ++from) {
    const auto found = arrivals_.find({from, channel, tag});
    if (found == arrivals_.end() || !found->second.front()->whole) continue;
    TcpRequest request;
    request.into = into;
    request.bytes = bytes;
    deliver(found->second.front(), request);
    found->second.pop_front();
    if (found->second.empty()) arrivals_.erase(found);
    return true;
  }
  return false;
}

void TcpMesh::deliver(const std::shared_ptr<Arrival>& arrival, TcpRequest& request) {
  const std::size_t arrived = arrival->bytes.size();
  if (request.bytes > 0 && arrived == request.bytes)
    std::memcpy(request.into, arrival->bytes.data(), arrived);
  request.finish(arrived);
}

void TcpMesh::wake() const noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(waker_.get(), &one, sizeof(one)));  // full: it is awake anyway
}

void TcpMesh::abort(int code) noexcept {
  // Whatever was on its way is void now: the note may follow half a message, which the peer
  // notices as a broken connection. Both end it.
  const Header header{.tag = abort_tag, .code = code};
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open() && peer.outgoing.empty())
      static_cast<void>(
          !::send(peer.socket.get(), &header, sizeof(header), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
}

void TcpMesh::lost(int rank, const std::string& how) {
  print_error(fmt::format("the connection to rank {} {}: it died or its host is gone", rank, how));
  abort_job(static_cast<int>(ExitCode::communication));
}

void TcpMesh::run() {
  std::vector<pollfd> waiting(peers_.size() + 1);
  while (!stopping_) {
    waiting.back() = {waker_.get(), POLLIN, 0};
    {
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < peers_.size(); ++i) {
        const Peer& peer = peers_[i];
        const auto events = static_cast<short>(peer.outgoing.empty() ? POLLIN : POLLIN | POLLOUT);
        waiting[i] = {peer.left && peer.outgoing.empty() ? -1 : peer.socket.get(), events, 0};
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
      if ((waiting[i].revents & POLLOUT) != 0) write_some(peers_[i]);
      if ((waiting[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0) read_some(static_cast<int>(i));
    }
  }
}

void TcpMesh::write_some(Peer& peer) {
  for (;;) {
    Outgoing* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (peer.outgoing.empty()) return;
      next = &peer.outgoing.front();  // stays where it is while others are added
    }
    auto* const head = reinterpret_cast<std::byte*>(&next->header);
    std::array<iovec, 2> parts{};
    const std::size_t head_left = sizeof(Header) - std::min(next->sent, sizeof(Header));
    const std::size_t body_sent = next->sent - (sizeof(Header) - head_left);
    parts[0] = {head + (sizeof(Header) - head_left), head_left};
    parts[1] = {const_cast<std::byte*>(next->request->from) + body_sent,
                next->request->bytes - body_sent};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(peer.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (would_block() || peer.left) return;
      lost(static_cast<int>(&peer - peers_.data()),
           fmt::format("broke ({})", std::strerror(errno)));
    }
    next->sent += static_cast<std::size_t>(sent);
    if (next->sent < sizeof(Header) + next->request->bytes) continue;
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
  while (!peer.left) {
    if (peer.got < sizeof(Header) ? read_header(rank) : read_body(rank)) return;
  }
}

bool TcpMesh::read_header(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  auto* const head = reinterpret_cast<std::byte*>(&peer.header);
  const ssize_t got =
      ::recv(peer.socket.get(), head + peer.got, sizeof(Header) - peer.got, MSG_DONTWAIT);
  if (got < 0 && would_block()) return true;
  if (got <= 0) lost(rank, got == 0 ? "was closed" : fmt::format("broke ({})", strerror(errno)));
  peer.got += static_cast<std::size_t>(got);
  if (peer.got < sizeof(Header)) return false;
  if (peer.header.tag == abort_tag) abort_job(peer.header.code);
  begin_body(rank);
  if (peer.header.bytes == 0) finish_message(rank);
  return false;
}

void TcpMesh::begin_body(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.header.tag == farewell_tag) return;
  const std::lock_guard lock(mutex_);
  const Key key{rank, peer.header.channel, peer.header.tag};
  if (const auto found = wanted_.find(key); found != wanted_.end()) {
    peer.request = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) wanted_.erase(found);
    if (peer.request->bytes == peer.header.bytes) return;
    // Read all the same, and thrown away.
    std::exchange(peer.request, nullptr)->finish(peer.header.bytes);
    peer.arrival = std::make_shared<Arrival>();
    peer.arrival->bytes.resize(peer.header.bytes);
    peer.arrival->refused = true;
    return;
  }
  peer.arrival = std::make_shared<Arrival>();
  peer.arrival->bytes.resize(peer.header.bytes);
  arrivals_[key].push_back(peer.arrival);
}

bool TcpMesh::read_body(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  std::byte* const into = peer.request ? peer.request->into : peer.arrival->bytes.data();
  const std::size_t at = peer.got - sizeof(Header);
  const ssize_t got = ::recv(peer.socket.get(), into + at, peer.header.bytes - at, MSG_DONTWAIT);
  if (got < 0 && would_block()) return true;
  if (got <= 0) lost(rank, got == 0 ? "was closed" : fmt::format("broke ({})", strerror(errno)));
  peer.got += static_cast<std::size_t>(got);
  if (peer.got == sizeof(Header) + peer.header.bytes) finish_message(rank);
  return false;
}

void TcpMesh::finish_message(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(mutex_);
  peer.got = 0;
  if (peer.header.tag == farewell_tag) {
    peer.left = true;
    return;
  }
  if (peer.request) {
    std::exchange(peer.request, nullptr)->finish(peer.header.bytes);
    return;
  }
  const auto arrival = std::exchange(peer.arrival, nullptr);
  arrival->whole = true;
  if (arrival->refused || arrival->wanted == nullptr) return;
  deliver(arrival, *arrival->wanted);
  const auto found = arrivals_.find({rank, peer.header.channel, peer.header.tag});
  std::erase(found->second, arrival);
  if (found->second.empty()) arrivals_.erase(found);
}

}  // namespace trireme
