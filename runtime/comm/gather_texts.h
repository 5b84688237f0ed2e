// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// The text of every rank, in rank order, on every rank. Collective; blocks the host.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& group, std::string_view own);
// The text of rank `root` on every rank. Collective; blocks the host.
[[nodiscard]] std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace trireme
