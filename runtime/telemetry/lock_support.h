// SPDX-License-Identifier: Apache-2.0
// Whether a lock on a file keeps off processes of other hosts too.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Why locks below `path`, absolute and without links, are seen on this host only; "" where they are
// seen by all. `mounts`: as /proc/self/mountinfo.
[[nodiscard]] std::string why_locks_are_local(std::string_view mounts, std::string_view path);

}  // namespace trireme
