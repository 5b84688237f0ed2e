// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace trireme {
namespace {

FileDescriptor new_socket() {
  FileDescriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.is_open()) system_failed("socket", "TCP", ExitCode::communication);
  return made;
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// Waits until the socket is ready for `events` or broken; false if `limit` has passed.
bool wait_for(const FileDescriptor& socket, short events, TcpClock::time_point limit) {
  for (;;) {
    pollfd waiting{socket.get(), events, 0};
    const int ready = ::poll(&waiting, 1, poll_milliseconds(limit));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (TcpClock::now() >= limit) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

bool again() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

TcpClock::time_point tcp_limit(double seconds) {
  constexpr double for_ever = 1e9;
  return TcpClock::now() + std::chrono::duration_cast<TcpClock::duration>(
                               std::chrono::duration<double>(seconds > 0 ? seconds : for_ever));
}

int poll_milliseconds(TcpClock::time_point limit, std::chrono::milliseconds longest) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit - TcpClock::now());
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), longest).count());
}

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  if (::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr) return "?";
  return fmt::format("{}:{}", text.data(), ntohs(address.sin_port));
}

bool is_loopback(const sockaddr_in& address) {
  constexpr std::uint32_t loopback_network = 127;
  return ntohl(address.sin_addr.s_addr) >> 24U == loopback_network;
}

sockaddr_in own_address(const FileDescriptor& socket) {
  sockaddr_in own{};
  socklen_t length = sizeof(own);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    system_failed("getsockname", "TCP", ExitCode::communication);
  return own;
}

FileDescriptor listen_at(const sockaddr_in& where, int backlog) {
  FileDescriptor listener = new_socket();
  const int one = 1;
  static_cast<void>(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)));
  if (::bind(listener.get(), plain(where), sizeof(where)) != 0)
    system_failed("bind", text_of(where), ExitCode::communication);
  if (::listen(listener.get(), backlog) != 0)
    system_failed("listen", text_of(where), ExitCode::communication);
  return listener;
}

FileDescriptor connect_until(const sockaddr_in& address, TcpClock::time_point limit) {
  FileDescriptor socket = new_socket();
  if (::connect(socket.get(), plain(address), sizeof(address)) == 0) return socket;
  if (errno != EINPROGRESS || !wait_for(socket, POLLOUT, limit)) return {};
  int error = 0;
  socklen_t length = sizeof(error);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return {};
  errno = error;
  return error == 0 ? std::move(socket) : FileDescriptor();
}

void tune(const FileDescriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    if (::setsockopt(socket.get(), level, option, &value, sizeof(value)) != 0)
      system_failed("setsockopt", "TCP", ExitCode::communication);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // milliseconds
}

bool has_left(const FileDescriptor& socket) {
  pollfd state{socket.get(), POLLRDHUP, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes,
              TcpClock::time_point limit) {
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (!again() || !wait_for(socket, POLLOUT, limit))) return false;
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes,
                 TcpClock::time_point limit) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) errno = ECONNRESET;
    if (got == 0 || (got < 0 && (!again() || !wait_for(socket, POLLIN, limit)))) return false;
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace trireme
