// SPDX-License-Identifier: Apache-2.0
// Whether a file lock also excludes processes on other hosts.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Why locks below `path`, absolute and without links, are visible only on this host; "" if they are
// visible everywhere. `mounts`: as /proc/self/mountinfo.
[[nodiscard]] std::string why_locks_are_local(std::string_view mounts, std::string_view path);

}  // namespace trireme
