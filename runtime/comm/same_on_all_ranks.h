// SPDX-License-Identifier: Apache-2.0
// Whether all ranks start from the same thing: a config, a program version, a list of files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "runtime/comm/communicator.h"

namespace trireme {

// Compares an XXH3 digest over all ranks; collective, blocks the host. When one differs, every rank
// raises ExitCode::config naming `what`, rank 0, the first rank that differs from it and their
// hosts; for text also the first line that differs, as both have it. Only then is the text sent.
void check_same_on_all_ranks(Communicator& world, std::string_view what, std::string_view text);
void check_same_on_all_ranks(Communicator& world, std::string_view what,
                             std::span<const std::byte> bytes);

// One thing that all ranks must start from alike.
struct SharedFact {
  std::string name;     // "data.path"
  std::string value;    // one line, compared: "fingerprint 01234567 (120 samples)"
  std::string place{};  // where this rank found it; shown, not compared
  ExitCode code = ExitCode::config;
  std::string advice = "start all ranks with the same program, files and arguments";
};

// The same for one fact. Every rank raises fact.code alike, with which ranks on which hosts have
// which value.
void check_same_on_all_ranks(Communicator& world, const SharedFact& fact);

}  // namespace trireme
