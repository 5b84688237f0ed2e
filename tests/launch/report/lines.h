// SPDX-License-Identifier: Apache-2.0
// Lines of metrics.jsonl as a run writes them, for tests of their readers.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::test {

// A step of 100 ms, with 20 of data wait and 10 of communication, reported at `seconds` past
// midnight.
[[nodiscard]] std::string step_line(std::int64_t step, double loss, double seconds);
[[nodiscard]] std::string evaluation_line(std::int64_t step, double loss, double seconds);

}  // namespace trireme::test
