// SPDX-License-Identifier: Apache-2.0
// Finding out whether a person watches.
#pragma once

#include <cstddef>

namespace trireme {

// Columns of the terminal behind `descriptor`; 0 where it is none. Under mpirun every rank writes
// to a pseudo-terminal of mpirun's that has no size; there the answer is that of mpirun's own
// output.
[[nodiscard]] std::size_t terminal_width(int descriptor);

}  // namespace trireme
