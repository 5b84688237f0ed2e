// SPDX-License-Identifier: Apache-2.0
// Private to this module: the handshake of a new connection. The listening host sends a challenge;
// the peer answers with its own nonce, its identity, and a proof of the job's secret over all of
// that; the host replies with its verdict and its own proof. Both proofs cover both nonces, so they
// cannot be replayed. All messages have a fixed length; the functions here only handle bytes.
//
// Afterwards the connection is trusted; its traffic is not encrypted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/comm/host/tcp/tcp_secret.h"

namespace trireme {

// The identity that a process claims.
struct TcpHello {
  std::uint64_t job = 0;  // a number that the job's processes share (tcp_place.h)
  std::int32_t rank = 0;
  std::int32_t size = 0;   // of the job
  std::uint16_t port = 0;  // its listening port, network order; 0: none
  std::uint16_t unused[3] = {};
};

struct TcpChallenge {
  std::uint64_t sign = 0;
  TcpNonce nonce{};
};

struct TcpAnswer {
  std::uint64_t sign = 0;
  TcpNonce nonce{};
  TcpHello hello;
  TcpProof proof{};
};

enum class TcpVerdict : std::uint32_t { welcome, other_job, other_size, no_such_rank, rank_taken };

struct TcpReply {
  TcpVerdict verdict = TcpVerdict::welcome;
  std::int32_t rank = 0;  // of the host
  TcpProof proof{};
};

[[nodiscard]] std::string_view text_of(TcpVerdict verdict);

[[nodiscard]] TcpChallenge make_challenge();
// Whether `challenge` was sent by a process of this program.
[[nodiscard]] bool is_challenge(const TcpChallenge& challenge);

[[nodiscard]] TcpAnswer make_answer(const TcpSecret& secret, const TcpChallenge& challenge,
                                    const TcpHello& hello);
// The peer's identity; nothing unless `bytes` answer this challenge and prove the secret.
[[nodiscard]] std::optional<TcpAnswer> check_answer(const TcpSecret& secret,
                                                    const TcpChallenge& challenge,
                                                    std::span<const std::byte> bytes);

[[nodiscard]] TcpReply make_reply(const TcpSecret& secret, const TcpChallenge& challenge,
                                  const TcpAnswer& answer, TcpVerdict verdict, int rank);
// Whether the sender of `reply` has the secret and saw this answer.
[[nodiscard]] bool check_reply(const TcpSecret& secret, const TcpChallenge& challenge,
                               const TcpAnswer& answer, const TcpReply& reply);

}  // namespace trireme
