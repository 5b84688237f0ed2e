// SPDX-License-Identifier: Apache-2.0
// Private to this module: the listening side of a rank. Each connection must prove the secret
// (tcp_handshake.h) within its own deadline. All connections are served at once, so slow, silent or
// foreign ones delay nobody. Refused connections are counted and sometimes logged.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/host/tcp/tcp_handshake.h"
#include "runtime/comm/host/tcp/tcp_socket.h"

namespace trireme {

// A process that has proven to be a rank of this job and was accepted.
struct TcpPeer {
  FileDescriptor socket;
  TcpHello hello;
  sockaddr_in address{};  // of the peer's end of the connection
};

class TcpListener {
 public:
  // Properties that must be equal in every process of the job; `rank` is this process's.
  struct JobIdentity {
    TcpSecret secret;
    std::uint64_t job = 0;
    int rank = 0;
    int size = 1;
  };
  // Accepts a rank or says why not.
  using Judge = std::function<TcpVerdict(int rank)>;

  // Listens at `where`; port 0: the system chooses.
  TcpListener(JobIdentity identity, const sockaddr_in& where);

  [[nodiscard]] sockaddr_in address() const { return own_address(listener_); }
  // Serves all connections for at most `pause`; returns early with an accepted peer.
  [[nodiscard]] std::optional<TcpPeer> serve(std::chrono::milliseconds pause, const Judge& judge);
  // Number of connections refused so far.
  [[nodiscard]] int refused() const { return refused_; }

 private:
  // A connection without proof yet.
  struct PendingPeer {
    FileDescriptor socket;
    sockaddr_in address{};
    TcpClock::time_point limit;
    TcpChallenge challenge;
    std::array<std::byte, sizeof(TcpAnswer)> answer{};
    std::size_t got = 0;  // bytes of the answer received
  };
  enum class Heard { part, answer, nothing_more };

  void accept_all();
  [[nodiscard]] Heard listen_to(PendingPeer& pending);
  // Nothing if the answer is no valid proof or the verdict is not welcome.
  [[nodiscard]] std::optional<TcpPeer> judge_answer(PendingPeer& pending, const Judge& judge);
  void refuse(const PendingPeer& pending, std::string_view why);

  JobIdentity identity_;
  FileDescriptor listener_;
  std::list<PendingPeer> pending_;  // oldest first
  int refused_ = 0;
  int unlogged_ = 0;
  TcpClock::time_point last_log_{};
};

}  // namespace trireme
