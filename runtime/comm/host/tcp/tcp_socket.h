// SPDX-License-Identifier: Apache-2.0
// Private to this module: TCP sockets with a limit on every wait.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

using TcpClock = std::chrono::steady_clock;

// The time `seconds` from now; 0: never.
[[nodiscard]] TcpClock::time_point tcp_limit(double seconds);
// The time left until `limit`, at most `longest`, for poll(); 0 if it has passed.
[[nodiscard]] int poll_milliseconds(
    TcpClock::time_point limit,
    std::chrono::milliseconds longest = std::chrono::milliseconds(1000));

// "10.0.0.3:29500"
[[nodiscard]] std::string text_of(const sockaddr_in& address);
// In 127.0.0.0/8: reachable only from this host.
[[nodiscard]] bool is_loopback(const sockaddr_in& address);
// The local address of a connection or a listening socket.
[[nodiscard]] sockaddr_in own_address(const FileDescriptor& socket);

// A non-blocking socket that listens at `where`.
[[nodiscard]] FileDescriptor listen_at(const sockaddr_in& where, int backlog);
// Empty if nobody answers until `limit`; errno says why.
[[nodiscard]] FileDescriptor connect_until(const sockaddr_in& address, TcpClock::time_point limit);
// Sends small messages at once; detects a lost host within half a minute.
void tune(const FileDescriptor& socket);
// Whether the peer has closed its end, even if data is still unread.
[[nodiscard]] bool has_left(const FileDescriptor& socket);

// False if the connection broke or `limit` passed before all bytes were transferred.
[[nodiscard]] bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes,
                            TcpClock::time_point limit);
[[nodiscard]] bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes,
                               TcpClock::time_point limit);

// The bytes of a message that is sent as it is in memory.
template <typename T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
[[nodiscard]] std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace trireme
