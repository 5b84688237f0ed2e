// SPDX-License-Identifier: Apache-2.0
// The effect of command line overrides on other keys of the file.
#pragma once

#include "runtime/config/config.h"

namespace trireme::config {

// If an override leaves another key of the file without meaning (betas under --set
// optimizer.name=sgd, a warm-up longer than --set train.steps), that key is reset to its default or
// shortened, with a notice in `where`. Contradictions within the file or within the command line
// are left for the rules to refuse.
void settle_overridden(const KeyTable& keys, Config& config, Provenance& where);

}  // namespace trireme::config
