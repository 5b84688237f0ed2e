// SPDX-License-Identifier: Apache-2.0
// Private to this room: what two processes say on a new connection before anything else is
// believed. The host, who listens, sends a challenge; the guest answers with a nonce of its own,
// who it is, and a proof of the job's secret over all of that; the host gives its verdict with a
// proof of its own. Both proofs cover both nonces, so that none can be used again. All messages
// have a fixed length; functions here only look at bytes.
//
// After that the connection is trusted as it is: what travels on it is not encrypted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/comm/host/tcp/tcp_secret.h"

namespace trireme {

// Who a process says to be.
struct TcpHello {
  std::uint64_t job = 0;  // a number that the job's processes share (tcp_place.h)
  std::int32_t rank = 0;
  std::int32_t size = 0;   // of the job
  std::uint16_t port = 0;  // where it listens, network order; 0: nowhere
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
// Whether `challenge` comes from a process of this program.
[[nodiscard]] bool is_challenge(const TcpChallenge& challenge);

[[nodiscard]] TcpAnswer make_answer(const TcpSecret& secret, const TcpChallenge& challenge,
                                    const TcpHello& hello);
// Who the guest is; nothing unless `bytes` are an answer to this very challenge by somebody who has
// the secret.
[[nodiscard]] std::optional<TcpAnswer> check_answer(const TcpSecret& secret,
                                                    const TcpChallenge& challenge,
                                                    std::span<const std::byte> bytes);

[[nodiscard]] TcpReply make_reply(const TcpSecret& secret, const TcpChallenge& challenge,
                                  const TcpAnswer& answer, TcpVerdict verdict, int rank);
// Whether `reply` comes from somebody who has the secret and saw this answer.
[[nodiscard]] bool check_reply(const TcpSecret& secret, const TcpChallenge& challenge,
                               const TcpAnswer& answer, const TcpReply& reply);

}  // namespace trireme
