// SPDX-License-Identifier: Apache-2.0
// Checks that all ranks start from the same config, program version or list of files.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/comm/communicator.h"

namespace trireme {

// Compares XXH3 digests over all ranks; collective, blocks the host. If one differs, every rank
// raises ExitCode::config naming `what`, rank 0, the first rank that differs and their hosts; for
// text also both versions of the first differing line. Only then is the text sent.
void check_same_on_all_ranks(Communicator& world, std::string_view what, std::string_view text);
void check_same_on_all_ranks(Communicator& world, std::string_view what,
                             std::span<const std::byte> bytes);

// One fact that must be equal on all ranks at the start.
struct SharedFact {
  std::string name;     // "data.path"
  std::string value;    // one line, compared: "fingerprint 01234567 (120 samples)"
  std::string place{};  // where this rank found it; printed, not compared
  ExitCode code = ExitCode::config;
  std::string advice = "start all ranks with the same program, files and arguments";
};

// The same for one fact. If it differs, every rank raises fact.code and lists values, ranks and
// hosts.
void check_same_on_all_ranks(Communicator& world, const SharedFact& fact);

// The text of every rank, in rank order, on every rank. Collective; blocks the host.
[[nodiscard]] std::vector<std::string> gather_texts(Communicator& group, std::string_view own);
// Gathers what `make` returns on each rank. If it raises an Error on some ranks, all ranks raise
// the first of these errors.
[[nodiscard]] std::vector<std::string> gather_or_raise(Communicator& group,
                                                       const std::function<std::string()>& make);
// Rank `root`'s text on every rank. Collective; blocks the host.
[[nodiscard]] std::string broadcast_text(Communicator& group, std::string text, int root);

}  // namespace trireme
