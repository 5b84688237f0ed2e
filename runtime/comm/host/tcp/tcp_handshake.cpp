// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/host/tcp/tcp_handshake.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace trireme {
namespace {

constexpr std::uint64_t sign_of_program = 0x32'45'4d'45'52'49'52'54;  // "TRIREME2"

template <typename T>
constexpr bool travels =
    std::is_trivially_copyable_v<T>&& std::has_unique_object_representations_v<T>;
static_assert(travels<TcpChallenge> && travels<TcpAnswer> && travels<TcpReply>,
              "they travel as bytes, and proofs cover all of them");

// The content of a proof: its role, so that a process's own words cannot be replayed to it, and the
// parts.
template <typename... Parts>
std::string statement(std::string_view whose, const Parts&... parts) {
  std::string bytes(whose);
  (bytes.append(reinterpret_cast<const char*>(&parts), sizeof(parts)), ...);
  return bytes;
}

std::string peers_statement(const TcpChallenge& challenge, const TcpAnswer& answer) {
  return statement("trireme peer", challenge.nonce, answer.nonce, answer.hello);
}

std::string hosts_statement(const TcpChallenge& challenge, const TcpAnswer& answer,
                            const TcpReply& reply) {
  return statement("trireme host", challenge.nonce, answer.nonce, answer.hello, reply.verdict,
                   reply.rank);
}

}  // namespace

std::string_view text_of(TcpVerdict verdict) {
  switch (verdict) {
    case TcpVerdict::welcome:
      return "welcome";
    case TcpVerdict::other_job:
      return "it belongs to another job";
    case TcpVerdict::other_size:
      return "its WORLD_SIZE differs";
    case TcpVerdict::no_such_rank:
      return "no rank with this number is expected here";
    case TcpVerdict::rank_taken:
      return "another process already has this rank; set a different RANK for each";
  }
  return "an unknown verdict";
}

TcpChallenge make_challenge() {
  return {.sign = sign_of_program, .nonce = new_tcp_nonce()};
}

bool is_challenge(const TcpChallenge& challenge) {
  return challenge.sign == sign_of_program;
}

TcpAnswer make_answer(const TcpSecret& secret, const TcpChallenge& challenge,
                      const TcpHello& hello) {
  TcpAnswer answer{.sign = sign_of_program, .nonce = new_tcp_nonce(), .hello = hello};
  answer.proof = secret.prove(peers_statement(challenge, answer));
  return answer;
}

std::optional<TcpAnswer> check_answer(const TcpSecret& secret, const TcpChallenge& challenge,
                                      std::span<const std::byte> bytes) {
  TcpAnswer answer;
  if (bytes.size() != sizeof(answer)) return {};
  std::memcpy(&answer, bytes.data(), sizeof(answer));
  if (answer.sign != sign_of_program ||
      !secret.proves(peers_statement(challenge, answer), answer.proof))
    return {};
  return answer;
}

TcpReply make_reply(const TcpSecret& secret, const TcpChallenge& challenge, const TcpAnswer& answer,
                    TcpVerdict verdict, int rank) {
  TcpReply reply{.verdict = verdict, .rank = rank};
  reply.proof = secret.prove(hosts_statement(challenge, answer, reply));
  return reply;
}

bool check_reply(const TcpSecret& secret, const TcpChallenge& challenge, const TcpAnswer& answer,
                 const TcpReply& reply) {
  return secret.proves(hosts_statement(challenge, answer, reply), reply.proof);
}

}  // namespace trireme
