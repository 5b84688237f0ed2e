// SPDX-License-Identifier: Apache-2.0
// Loops over independent items on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace trireme {

// Calls `body(i)` once for each i in [0, count). Raises the error of the smallest failing i,
// whatever the number of threads.
void parallel_for(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& body);

// Default number of threads for such a loop: one per core, at most 16.
[[nodiscard]] std::size_t usable_cores();

}  // namespace trireme
