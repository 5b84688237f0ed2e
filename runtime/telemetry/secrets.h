// SPDX-License-Identifier: Apache-2.0
// What of a process's surroundings may be written down: environment.json is shared with others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Whether a variable is on the list of those that steer a run and hold no secret. Everything else
// stays out: what a site calls its secrets cannot be known.
[[nodiscard]] bool may_be_recorded(std::string_view variable);

// The text with "***" for a user and password in an address, for the query of a URL, and for the
// value of a word such as token=VALUE.
[[nodiscard]] std::string without_secrets(std::string_view text);

// The same for every word of a command line; also the word behind an option such as --password or
// sshpass -p.
[[nodiscard]] std::vector<std::string> without_secrets(const std::vector<std::string>& words);

}  // namespace trireme
