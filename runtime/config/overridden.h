// SPDX-License-Identifier: Apache-2.0
// What an override on the command line does to other keys of the file.
#pragma once

#include "runtime/config/config.h"

namespace trireme::config {

// A key of the file that has lost its meaning through an override of another one (betas under --set
// optimizer.name=sgd, a warm-up longer than --set train.steps) goes back to its default or is
// shortened, with a notice in `where`. What contradicts itself within the file, or within the
// command line, stays for the rules to refuse.
void settle_overridden(const KeyTable& keys, Config& config, Provenance& where);

}  // namespace trireme::config
