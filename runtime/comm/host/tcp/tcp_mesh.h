// SPDX-License-Identifier: Apache-2.0
// Private to this module: connections to all other ranks of the job, and the thread that moves
// messages over them (tcp_inbox.h matches arrivals). The job ends if a connection closes without a
// farewell (a dead rank) or sends invalid data.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/comm/host/tcp/tcp_inbox.h"

namespace trireme {

class TcpMesh {
 public:
  using Channel = TcpChannel;

  // `sockets[r]` connects to rank r; this rank's own is empty.
  TcpMesh(int rank, std::vector<FileDescriptor> sockets);
  // Says farewell and waits for the peers' farewells, unless the stack is unwinding.
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }

  void send(int to, Channel channel, int tag, std::shared_ptr<TcpRequest> request);
  void receive(int from, Channel channel, int tag, std::shared_ptr<TcpRequest> request);
  // Takes a complete message from any rank; false if none has arrived.
  [[nodiscard]] bool receive_arrived(Channel channel, int tag, std::byte* into, std::size_t bytes);
  // Tells every peer, as far as possible, to exit with this code.
  void abort(int code) noexcept;

 private:
  struct Outgoing {
    TcpHeader header;
    std::shared_ptr<TcpRequest> request;
    std::size_t sent = 0;  // of header and payload
  };
  struct Peer {
    FileDescriptor socket;
    std::deque<Outgoing> outgoing;
  };

  void run();
  [[nodiscard]] short events_of(int rank);
  void write_some(int rank);
  void read_some(int rank);
  void wake() const noexcept;
  [[noreturn]] void lost(int rank, const std::string& how);
  [[nodiscard]] bool farewells_done();

  int rank_;
  std::vector<Peer> peers_;
  FileDescriptor waker_;
  TcpInbox inbox_;
  std::mutex mutex_;  // guards outgoing messages of the peers
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme
