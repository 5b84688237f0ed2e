// SPDX-License-Identifier: Apache-2.0
// Filters a process's environment for environment.json, which is shared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Whether a variable is on the list of those that affect a run and hold no secret. All others are
// excluded, because sites may name their secrets in any way.
[[nodiscard]] bool may_be_recorded(std::string_view variable);

// The text with "***" for a user and password in an address, for the query of a URL, and for the
// value of a word such as token=VALUE.
[[nodiscard]] std::string without_secrets(std::string_view text);

// The same for every word of a command line; also hides the word after an option such as --password
// or sshpass -p.
[[nodiscard]] std::vector<std::string> without_secrets(const std::vector<std::string>& words);

}  // namespace trireme
