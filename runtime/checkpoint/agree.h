// SPDX-License-Identifier: Apache-2.0
// Exchanges texts between ranks: manifest entries and problems. Collective; always over the host
// group, whatever the device.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/host_stream.h"

namespace trireme {

// All ranks' texts on rank 0, by rank; empty on other ranks.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& group, const HostStream& stream,
                                                    const std::string& mine);
// Rank 0's text on every rank.
[[nodiscard]] std::string share_text(Communicator& group, const HostStream& stream,
                                     const std::string& text);
// All ranks' texts on every rank, by rank.
[[nodiscard]] std::vector<std::string> share_texts(Communicator& group, const HostStream& stream,
                                                   const std::string& mine);
// The first non-empty problem, prefixed by its rank; "" if no rank has one. The same on all ranks.
[[nodiscard]] std::string first_problem(Communicator& group, const HostStream& stream,
                                        const std::string& mine);

// Runs `action` and returns its error as text; "" for none. Local.
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
