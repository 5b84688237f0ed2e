// SPDX-License-Identifier: Apache-2.0
// Texts between ranks: entries of a manifest, what went wrong where. Collective; the calls go over
// MPI whatever the device.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// Every rank's text on rank 0, by rank; nothing elsewhere.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& group, const HostStream& stream,
                                                    const std::string& mine);
// Rank 0's text on every rank.
[[nodiscard]] std::string share_text(Communicator& group, const HostStream& stream,
                                     const std::string& text);
// Every rank's text on every rank, by rank.
[[nodiscard]] std::vector<std::string> share_texts(Communicator& group, const HostStream& stream,
                                                   const std::string& mine);
// The first rank's problem that is not empty, with its rank before it; "" when nobody has one. The
// same on all ranks.
[[nodiscard]] std::string first_problem(Communicator& group, const HostStream& stream,
                                        const std::string& mine);

// Runs `action`; what goes wrong in it as text, "" for nothing. Local.
template <typename Action>
[[nodiscard]] std::string problem_of(Action&& action) {
  try {
    action();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace trireme
