// SPDX-License-Identifier: Apache-2.0
// Private to this room: makes messages of the bytes that peers send, and gives them to those who
// asked for them: by sender, channel and tag, in order. It knows no sockets: somebody else puts the
// next bytes of a peer where space() says. What arrives before it is asked for is kept, up to a
// limit per peer; beyond it the peer's bytes wait where they are until some of it is asked for. So
// no peer decides how much memory this process takes, whatever lengths it announces.
//
// Threads: one reads (space, arrived), any may receive.
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

// One message under way; whoever posted it keeps it until `done`.
struct TcpRequest {
  std::byte* into = nullptr;        // receives
  const std::byte* from = nullptr;  // sends
  std::size_t bytes = 0;
  std::string problem;  // set before `done` where the message did not fit
  std::atomic<bool> done = false;

  void finish(std::size_t arrived);
};

// Channels keep groups apart; both ends compute the same number.
using TcpChannel = std::uint64_t;

// In front of every message.
struct TcpHeader {
  TcpChannel channel = 0;
  std::int32_t tag = 0;   // of MessageTag, or one of the two below
  std::int32_t code = 0;  // of an abort
  std::uint64_t bytes = 0;
};
// Tags of the mesh's own messages, which have no bytes.
inline constexpr std::int32_t tcp_farewell_tag = -1;
inline constexpr std::int32_t tcp_abort_tag = -2;

struct TcpInboxLimits {
  // Of each peer, not asked for yet.
  std::size_t early_bytes = std::size_t{1} << 30;
  std::size_t early_messages = std::size_t{1} << 16;
};

class TcpInbox {
 public:
  enum class Event { none, farewell, abort };

  explicit TcpInbox(int size, TcpInboxLimits limits = {});

  // Where the next bytes of `from` belong; empty where it has said farewell, or must wait.
  [[nodiscard]] std::span<std::byte> space(int from);
  // So many of them have come. Raises ExitCode::communication where they are no message.
  [[nodiscard]] Event arrived(int from, std::size_t bytes);
  // Nothing more is taken from this peer for now: nobody has asked for what it sent.
  [[nodiscard]] bool waits(int from);
  [[nodiscard]] bool has_left(int from);
  // What an abort says to end with: never 0, whatever the peer sent.
  [[nodiscard]] int abort_code(int from) const;

  // True where a peer that had to wait may go on.
  [[nodiscard]] bool receive(int from, TcpChannel channel, int tag,
                             std::shared_ptr<TcpRequest> request);
  // A message of this process to itself.
  void put(int from, TcpChannel channel, int tag, TcpRequest& request);

  enum class Found { nothing, message, message_and_go_on };  // the last as receive()'s true
  // A whole message from any rank that has arrived.
  [[nodiscard]] Found receive_arrived(TcpChannel channel, int tag, std::byte* into,
                                      std::size_t bytes);
  // Held for `from`.
  [[nodiscard]] std::size_t early_bytes(int from);

 private:
  // Arrived, or arriving, before it was asked for.
  struct Early {
    std::vector<std::byte> bytes;  // as many as have come, and room for the next
    std::size_t total = 0;         // of the whole message
    bool whole = false;
    std::shared_ptr<TcpRequest> wanted;  // asked for while it was arriving
  };
  // The message of a peer that is arriving.
  struct Incoming {
    TcpHeader header;
    std::size_t got = 0;  // of header and bytes
    bool placed = false;  // it is known where its bytes go: one of these, or nowhere
    std::shared_ptr<TcpRequest> request;
    std::shared_ptr<Early> early;
    bool waits = false;
    bool left = false;
    std::size_t early_bytes = 0, early_messages = 0;
  };
  using Key = std::tuple<int, TcpChannel, int>;

  // All with the lock held.
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
