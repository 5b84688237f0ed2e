// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// The text of every rank, in rank order, on every rank. Collective; blocks the host.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& group, std::string_view own);
// The same of what `make` gives on each rank. An Error that it raises on some of them all raise, as
// the first of these has it.
[[nodiscard]] std::vector<std::string> gather_or_raise(Communicator& group,
                                                       const std::function<std::string()>& make);
// The text of rank `root` on every rank. Collective; blocks the host.
[[nodiscard]] std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace trireme
