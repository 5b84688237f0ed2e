// SPDX-License-Identifier: Apache-2.0
// Untrusted bytes to a rank of a job over TCP. The first byte chooses the number of posted receives
// and the chunk sizes; the rest comes from one peer: as an answer to a challenge, which needs the
// secret, and as messages, which are kept only up to the limit.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/comm/host/tcp/tcp_handshake.h"
#include "runtime/comm/host/tcp/tcp_inbox.h"
#include "runtime/comm/host/transfers.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

constexpr int peer = 1;
constexpr TcpChannel channel = 5;
constexpr TcpInboxLimits limits{.early_bytes = 4096, .early_messages = 16};

void answer(std::span<const std::byte> bytes) {
  static const TcpSecret secret("a secret that nobody knows");
  static const TcpChallenge challenge = make_challenge();
  fuzz::require(!check_answer(secret, challenge, bytes), "a proof without the secret");
}

struct Receive {
  std::vector<std::byte> into;
  std::shared_ptr<TcpRequest> request = std::make_shared<TcpRequest>();
};

// As TcpMesh::read_some.
void messages(std::span<const std::byte> bytes, int posted, std::size_t at_once) {
  TcpInbox inbox(2, limits);
  std::vector<Receive> receives(static_cast<std::size_t>(posted));
  for (std::size_t i = 0; i < receives.size(); ++i) {
    Receive& receive = receives[i];
    receive.into.resize(i * 3);
    receive.request->into = receive.into.data();
    receive.request->bytes = receive.into.size();
    const auto tag = static_cast<int>(i % 2 == 0 ? MessageTag::user : MessageTag::collective);
    static_cast<void>(inbox.receive(peer, channel, tag, receive.request));
  }
  while (!bytes.empty()) {
    const std::span<std::byte> space = inbox.space(peer);
    fuzz::require(inbox.early_bytes(peer) <= limits.early_bytes, "more is kept than may be");
    if (space.empty()) break;
    const std::size_t some = std::min({space.size(), bytes.size(), at_once});
    std::memcpy(space.data(), bytes.data(), some);
    bytes = bytes.subspan(some);
    const auto event = inbox.arrived(peer, some);
    if (event == TcpInbox::Event::abort)
      fuzz::require(inbox.abort_code(peer) >= 1 && inbox.abort_code(peer) <= 255,
                    "an abort that is a success");
    if (event != TcpInbox::Event::none) break;
  }
  // A later receive gets complete messages only.
  std::vector<std::byte> rest(16);
  while (inbox.receive_arrived(channel, static_cast<int>(MessageTag::note), rest.data(),
                               rest.size()) != TcpInbox::Found::nothing) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  answer(bytes);
  const int posted = data[0] % 8;
  const std::size_t at_once = data[0] < 128 ? size : 1 + data[0] % 32;
  fuzz::accepts(ExitCode::communication, [&] { messages(bytes, posted, at_once); });
  return 0;
}
