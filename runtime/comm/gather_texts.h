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
// Gathers what `make` returns on each rank. If it raises an Error on some ranks, all ranks raise
// the first of these errors.
[[nodiscard]] std::vector<std::string> gather_or_raise(Communicator& group,
                                                       const std::function<std::string()>& make);
// Rank `root`'s text on every rank. Collective; blocks the host.
[[nodiscard]] std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace trireme
