// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/config/rules/rules.h"

namespace trireme {

// That model.heads divides model.hidden into heads that kernels take. Raises ExitCode::config.
void check_heads_of_hidden(const config::Subject& subject, std::int64_t hidden, std::int64_t heads);

}  // namespace trireme
