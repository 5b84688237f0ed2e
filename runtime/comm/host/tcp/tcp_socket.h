// SPDX-License-Identifier: Apache-2.0
// Private to this room: TCP sockets whose every wait has an end.
#pragma once

#include <netinet/in.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace trireme {

using TcpClock = std::chrono::steady_clock;

// `seconds` from now; 0: never.
[[nodiscard]] TcpClock::time_point tcp_limit(double seconds);
// Of what is left until `limit` (and of `longest`), for poll(): 0 where nothing is.
[[nodiscard]] int poll_milliseconds(
    TcpClock::time_point limit,
    std::chrono::milliseconds longest = std::chrono::milliseconds(1000));

// "10.0.0.3:29500"
[[nodiscard]] std::string text_of(const sockaddr_in& address);
// 127.0.0.0/8: reached from this host only.
[[nodiscard]] bool is_loopback(const sockaddr_in& address);
// Of this end of a connection, or of a socket that listens.
[[nodiscard]] sockaddr_in own_address(const FileDescriptor& socket);

// A socket that listens at `where` and never blocks.
[[nodiscard]] FileDescriptor listen_at(const sockaddr_in& where, int backlog);
// Empty where nobody answers until `limit`; errno says why.
[[nodiscard]] FileDescriptor connect_until(const sockaddr_in& address, TcpClock::time_point limit);
// Small messages at once; a host that is gone is noticed within half a minute.
void tune(const FileDescriptor& socket);
// The other side has closed its end, whatever of its data is still unread.
[[nodiscard]] bool has_left(const FileDescriptor& socket);

// False where the connection broke or `limit` passed before all bytes had gone or come.
[[nodiscard]] bool send_all(const FileDescriptor& socket, std::span<const std::byte> bytes,
                            TcpClock::time_point limit);
[[nodiscard]] bool receive_all(const FileDescriptor& socket, std::span<std::byte> bytes,
                               TcpClock::time_point limit);

// The bytes of a message that travels as it lies in memory.
template <typename T>
[[nodiscard]] std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
[[nodiscard]] std::span<std::byte> writable_bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace trireme
