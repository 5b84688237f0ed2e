// SPDX-License-Identifier: Apache-2.0
// Pairs of settings that exclude each other, a row each. resolve_config refuses them, and the
// table of modes in README.md is made of them.
#pragma once

#include <span>
#include <string_view>

namespace trireme::config {

struct Subject;

// A setting is "KEY" (another value than its default), "KEY: a, b" (one of these values) or "KEY: >
// x" (a larger number than x, a number or another key). Refused as "`key`: its value with `with`:
// its value, why; use ...".
struct Exclusion {
  std::string_view key;
  std::string_view with;
  std::string_view why;  // may be empty
  std::string_view use;
};

[[nodiscard]] std::span<const Exclusion> exclusions();

// "parallel.zero" of "parallel.zero: 2, 3".
[[nodiscard]] std::string_view key_of(std::string_view setting);

// Refuses all pairs that the config has. Values that resolve_config chooses are resolved.
void check_exclusions(const Subject& subject);

}  // namespace trireme::config
