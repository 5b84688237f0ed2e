// SPDX-License-Identifier: Apache-2.0
// Private to this room: the secret that the ranks of a job share, by which they know each other. It
// never travels: a rank proves that it has it (HMAC-SHA256 over numbers that both sides chose).
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

  // None: anybody can prove it. For processes of one host only.
  TcpSecret() = default;
  explicit TcpSecret(std::string value) : value_(std::move(value)) {}
  // TRIREME_SECRET, or the content of the file TRIREME_SECRET_FILE; none where neither is set.
  // Raises ExitCode::config for both, a short one, and a file that cannot be read or that every
  // user of the host may read.
  [[nodiscard]] static TcpSecret of_environment();

  [[nodiscard]] bool given() const { return !value_.empty(); }
  [[nodiscard]] TcpProof prove(std::string_view message) const;
  // Takes as long for any wrong proof.
  [[nodiscard]] bool proves(std::string_view message, const TcpProof& proof) const;

 private:
  std::string value_;
};

// A number that nobody has used before.
[[nodiscard]] TcpNonce new_tcp_nonce();

}  // namespace trireme
