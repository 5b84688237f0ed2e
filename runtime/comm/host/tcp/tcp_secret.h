// SPDX-License-Identifier: Apache-2.0
// Private to this module: the secret that authenticates the ranks of a job. It is never sent: a
// rank proves that it has it (HMAC-SHA256 over numbers chosen by both sides).
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

using TcpNonce = std::array<std::byte, 32>;
using TcpProof = std::array<std::byte, 32>;

class TcpSecret {
 public:
  static constexpr std::size_t min_bytes = 16;

  // No secret: every proof is valid. Only for processes of one host.
  TcpSecret() = default;
  explicit TcpSecret(std::string value) : value_(std::move(value)) {}
  // From TRIREME_SECRET or the file TRIREME_SECRET_FILE; none if neither is set. Raises
  // ExitCode::config if both are set, for a short secret, and for a file that cannot be read or
  // that every user of the host may read.
  [[nodiscard]] static TcpSecret of_environment();

  [[nodiscard]] bool given() const { return !value_.empty(); }
  [[nodiscard]] TcpProof prove(std::string_view message) const;
  // Constant time for all wrong proofs.
  [[nodiscard]] bool proves(std::string_view message, const TcpProof& proof) const;

 private:
  std::string value_;
};

// A number that was never used before.
[[nodiscard]] TcpNonce new_tcp_nonce();

}  // namespace trireme
