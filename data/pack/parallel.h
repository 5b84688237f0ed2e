// SPDX-License-Identifier: Apache-2.0
// A loop over independent items on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme {

// Calls `body(i)` once for each i in [0, count). The error of the smallest failing i is raised,
// whatever the number of threads.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& body);

// Threads for such a loop where nobody says how many: one per core, 16 at most.
[[nodiscard]] std::size_t usable_cores();

}  // namespace trireme
