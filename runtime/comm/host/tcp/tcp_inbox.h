// SPDX-License-Identifier: Apache-2.0
// Private to this module: assembles messages from the bytes of peers and matches them with receives
// by sender, channel and tag, in order. It uses no sockets: the caller puts a peer's next bytes
// where space() says. Messages that arrive before their receive are kept, up to a limit per peer;
// beyond it the peer's bytes stay in the socket. So no peer controls this process's memory use,
// whatever lengths it announces.
//
// Threads: one calls space() and arrived(); any may receive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace trireme {

// One message in flight; the poster keeps it alive until `done`.
struct TcpRequest {
  std::byte* into = nullptr;        // receives
  const std::byte* from = nullptr;  // sends
  std::size_t bytes = 0;
  std::string problem;  // set before `done` if the message did not fit
  std::atomic<bool> done = false;

  void finish(std::size_t arrived);
};

// Separates groups; both ends compute the same number.
using TcpChannel = std::uint64_t;

// Precedes every message.
struct TcpHeader {
  TcpChannel channel = 0;
  std::int32_t tag = 0;   // a MessageTag, or one of the two below
  std::int32_t code = 0;  // of an abort
  std::uint64_t bytes = 0;
};
// Tags of the mesh's own messages, which have no payload.
inline constexpr std::int32_t tcp_farewell_tag = -1;
inline constexpr std::int32_t tcp_abort_tag = -2;

struct TcpInboxLimits {
  // Limit per peer for messages that arrive before they are requested.
  std::size_t early_bytes = std::size_t{1} << 30;
  std::size_t early_messages = std::size_t{1} << 16;
};

class TcpInbox {
 public:
  enum class Event { none, farewell, abort };

  explicit TcpInbox(int size, TcpInboxLimits limits = {});

  // Where the next bytes from `from` go; empty if it has said farewell or must wait.
  [[nodiscard]] std::span<std::byte> space(int from);
  // `bytes` bytes have arrived. Raises ExitCode::communication if they are not a valid message.
  [[nodiscard]] Event arrived(int from, std::size_t bytes);
  // Whether this peer's socket is not read for now, because nobody has requested its messages.
  [[nodiscard]] bool waits(int from);
  [[nodiscard]] bool has_left(int from);
  // The exit code of an abort message: never 0, whatever the peer sent.
  [[nodiscard]] int abort_code(int from) const;

  // Returns true if a peer that had to wait may continue.
  [[nodiscard]] bool receive(int from, TcpChannel channel, int tag,
                             std::shared_ptr<TcpRequest> request);
  // Sends a message of this process to itself.
  void put(int from, TcpChannel channel, int tag, TcpRequest& request);

  enum class Found { nothing, message, message_and_go_on };  // the last: like true from receive()
  // Takes a complete message from any rank, if one has arrived.
  [[nodiscard]] Found receive_arrived(TcpChannel channel, int tag, std::byte* into,
                                      std::size_t bytes);
  // Bytes of early messages held for `from`.
  [[nodiscard]] std::size_t early_bytes(int from);

 private:
  // A message that arrives before it is requested.
  struct Early {
    std::vector<std::byte> bytes;  // grows with what has arrived
    std::size_t total = 0;         // of the whole message
    bool whole = false;
    std::shared_ptr<TcpRequest> wanted;  // set if requested during arrival
  };
  // The message that is arriving from a peer.
  struct Incoming {
    TcpHeader header;
    std::size_t got = 0;  // of header and payload
    bool placed = false;  // its destination is known: one of these, or nowhere
    std::shared_ptr<TcpRequest> request;
    std::shared_ptr<Early> early;
    bool waits = false;
    bool left = false;
    std::size_t early_bytes = 0, early_messages = 0;
  };
  using Key = std::tuple<int, TcpChannel, int>;

  // All need the lock.
  void check(const TcpHeader& header) const;
  [[nodiscard]] bool place(int from);
  void finish(int from);
  void deliver(int from, const Early& early, TcpRequest& request);
  void forget(const Key& key, const std::shared_ptr<Early>& early);
  [[nodiscard]] bool wake(int from);

  [[nodiscard]] Incoming& at(int from) { return incoming_[static_cast<std::size_t>(from)]; }

  TcpInboxLimits limits_;
  std::mutex mutex_;
  std::vector<Incoming> incoming_;
  std::map<Key, std::deque<std::shared_ptr<TcpRequest>>> wanted_;
  std::map<Key, std::deque<std::shared_ptr<Early>>> early_;
  std::vector<std::byte> nowhere_;  // for messages that do not fit
};

}  // namespace trireme
