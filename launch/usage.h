// SPDX-License-Identifier: Apache-2.0
// What to say about a command line that does not parse.
#pragma once

#include <string>
#include <vector>

#include "launch/cli_fwd.h"

namespace trireme {

// Names the word that is wrong and what was probably meant, the commands where one is missing, else
// says what `error` does. `words` are the arguments behind the program's name.
[[nodiscard]] std::string usage_advice(const CLI::App& app, const std::vector<std::string>& words,
                                       const CLI::ParseError& error);

}  // namespace trireme
