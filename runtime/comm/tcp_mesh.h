// SPDX-License-Identifier: Apache-2.0
// Private to this room: a connection to every other rank of the job and the thread that moves
// messages over them. Receives are matched by sender, channel and tag, in order; what arrives
// before anybody asked for it is kept. A connection that closes without a farewell is a dead rank:
// the job ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/base/file.h"

namespace trireme {

// One message under way; whoever posted it keeps it until `done`.
struct TcpRequest {
  std::byte* into = nullptr;        // receives
  const std::byte* from = nullptr;  // sends
  std::size_t bytes = 0;
  std::string problem;  // set before `done` where the message did not fit
  std::atomic<bool> done = false;

  void finish(std::size_t arrived);
};

class TcpMesh {
 public:
  // Channels keep groups apart; both ends compute the same number.
  using Channel = std::uint64_t;

  // `sockets[r]` leads to rank r; this rank's own is empty.
  TcpMesh(int rank, std::vector<FileDescriptor> sockets);
  // Says farewell and waits for the peers', unless an error is on its way up.
  ~TcpMesh();
  TcpMesh(const TcpMesh&) = delete;
  TcpMesh& operator=(const TcpMesh&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }

  void send(int to, Channel channel, int tag, std::shared_ptr<TcpRequest> request);
  void receive(int from, Channel channel, int tag, std::shared_ptr<TcpRequest> request);
  // A whole message from any rank that has arrived; false: none has.
  [[nodiscard]] bool receive_arrived(Channel channel, int tag, std::byte* into, std::size_t bytes);
  // Tells every peer to end with this code, as well as that works.
  void abort(int code) noexcept;

 private:
  struct Header {
    std::uint64_t channel = 0;
    std::int32_t tag = 0;
    std::int32_t code = 0;
    std::uint64_t bytes = 0;
  };
  // Arrived, or arriving, before it was asked for.
  struct Arrival {
    std::vector<std::byte> bytes;
    bool whole = false;
    bool refused = false;                // nobody takes it
    std::shared_ptr<TcpRequest> wanted;  // asked for while it was arriving
  };
  struct Outgoing {
    Header header;
    std::shared_ptr<TcpRequest> request;
    std::size_t sent = 0;  // of header and bytes
  };
  struct Peer {
    FileDescriptor socket;
    std::deque<Outgoing> outgoing;
    // The message that is arriving.
    Header header;
    std::size_t got = 0;  // of header and bytes
    std::shared_ptr<TcpRequest> request;
    std::shared_ptr<Arrival> arrival;
    bool left = false;  // said farewell
  };
  using Key = std::tuple<int, Channel, int>;

  void send_to_oneself(const Key& key, TcpRequest& request);
  void run();
  void write_some(Peer& peer);
  void read_some(int rank);
  // True where the socket has no more for now.
  bool read_header(int rank);
  bool read_body(int rank);
  void begin_body(int rank);
  void finish_message(int rank);
  void deliver(const std::shared_ptr<Arrival>& arrival, TcpRequest& request);
  void wake() const noexcept;
  [[noreturn]] void lost(int rank, const std::string& how);
  [[nodiscard]] bool farewells_done();

  int rank_;
  std::vector<Peer> peers_;
  FileDescriptor waker_;
  std::mutex mutex_;
  std::map<Key, std::deque<std::shared_ptr<TcpRequest>>> wanted_;
  std::map<Key, std::deque<std::shared_ptr<Arrival>>> arrivals_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme
