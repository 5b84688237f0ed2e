// SPDX-License-Identifier: Apache-2.0
// Private to this room: where a rank listens for others of its job. Whoever connects must prove the
// secret (tcp_handshake.h) within a deadline of its own; all are served at the same time, so that
// nobody who is slow, silent or a stranger keeps others waiting. Who is turned away is counted and,
// now and then, logged.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/host/tcp/tcp_handshake.h"
#include "runtime/comm/host/tcp/tcp_socket.h"

namespace trireme {

// A process that has proven to be a rank of this job and was told that it is welcome.
struct TcpGuest {
  FileDescriptor socket;
  TcpHello hello;
  sockaddr_in address{};  // of its end of the connection
};

class TcpDoor {
 public:
  // What of a process must be as here; `rank` is this process's.
  struct House {
    TcpSecret secret;
    std::uint64_t job = 0;
    int rank = 0;
    int size = 1;
  };
  // Whether a rank is awaited, or why not.
  using Judge = std::function<TcpVerdict(int rank)>;

  // Listens at `where`; port 0: one of the system's choice.
  TcpDoor(House house, const sockaddr_in& where);

  [[nodiscard]] sockaddr_in address() const { return own_address(listener_); }
  // Serves everybody for `pause` at most; returns early with a guest who is welcome.
  [[nodiscard]] std::optional<TcpGuest> serve(std::chrono::milliseconds pause, const Judge& judge);
  // How many were turned away so far.
  [[nodiscard]] int refused() const { return refused_; }

 private:
  // Somebody who has connected and not proven anything yet.
  struct Stranger {
    FileDescriptor socket;
    sockaddr_in address{};
    TcpClock::time_point limit;
    TcpChallenge challenge;
    std::array<std::byte, sizeof(TcpAnswer)> answer{};
    std::size_t got = 0;  // bytes of the answer
  };
  enum class Heard { part, answer, nothing_more };

  void accept_all();
  [[nodiscard]] Heard listen_to(Stranger& stranger);
  // Nothing where the answer is no proof, or the verdict not welcome.
  [[nodiscard]] std::optional<TcpGuest> judge_answer(Stranger& stranger, const Judge& judge);
  void refuse(const Stranger& stranger, std::string_view why);

  House house_;
  FileDescriptor listener_;
  std::list<Stranger> strangers_;  // oldest first
  int refused_ = 0;
  int unlogged_ = 0;
  TcpClock::time_point last_log_{};
};

}  // namespace trireme
