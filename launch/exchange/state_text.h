// SPDX-License-Identifier: Apache-2.0
// The state that a checkpoint's manifest carries, for people.
#pragma once

#include <string>

namespace trireme {

// Lines of "name      value": what Checkpointing wrote into the manifest. Of the config the keys
// that differ from the defaults, one a line; all of them with `whole_config`. Text that is not a
// run's state is named as such.
[[nodiscard]] std::string describe_state(const std::string& state, bool whole_config);

}  // namespace trireme
