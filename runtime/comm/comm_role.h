// SPDX-License-Identifier: Apache-2.0
// What a group of ranks is for, which decides how much of a GPU its calls take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trireme {

enum class CommRole : std::uint8_t {
  control,  // norms, losses, tied gradients: nothing is computed meanwhile
  data,     // gradients
  gather,   // parameters
  tensor,   // sums within layers
  link      // messages between pipeline stages
};
inline constexpr std::size_t comm_roles = 5;

[[nodiscard]] constexpr std::string_view name_of(CommRole role) {
  constexpr std::array<std::string_view, comm_roles> names{"control", "data", "gather", "tensor",
                                                           "link"};
  return names[static_cast<std::size_t>(role)];
}

// NCCL's own limit of thread blocks per call (MAXCHANNELS), and what it allows itself.
inline constexpr int nccl_most_ctas = 64;

// Thread blocks (CTAs) of an NCCL call. Each holds a multiprocessor until the call is over: a
// receive until its message has come.
struct CtaLimits {
  int least = 0;  // 0: NCCL's choice
  std::array<int, comm_roles> most{nccl_most_ctas, nccl_most_ctas, nccl_most_ctas, nccl_most_ctas,
                                   nccl_most_ctas};  // by role

  [[nodiscard]] int most_of(CommRole role) const { return most[static_cast<std::size_t>(role)]; }
  friend bool operator==(const CtaLimits&, const CtaLimits&) = default;
};

}  // namespace trireme
