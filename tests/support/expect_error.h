// SPDX-License-Identifier: Apache-2.0
// Runs an action that must raise a trireme::Error and gives it back for checks of code and text.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace trireme::test {

template <typename Action>
std::optional<Error> error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {};
}

// The action must fail with `code` and a message that contains every one of `parts`.
template <typename Action, typename... Parts>
void expect_error(ExitCode code, Action&& action, const Parts&... parts) {
  const auto error = error_of(std::forward<Action>(action));
  ASSERT_TRUE(error.has_value()) << "no error was raised";
  EXPECT_EQ(static_cast<int>(error->code()), static_cast<int>(code)) << error->what();
  const std::string text = error->what();
  for (const std::string& part : std::vector<std::string>{parts...}) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in: " << text;
  }
}

}  // namespace trireme::test
