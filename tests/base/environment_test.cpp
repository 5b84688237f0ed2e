// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <string>

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Each test has its own variable: warnings appear once per process and name.
struct Answer {
  std::optional<std::int64_t> number;
  std::string said;
};

Answer read_with(const char* name, const char* value) {
  ::setenv(name, value, 1);
  testing::internal::CaptureStderr();
  Answer answer{.number = environment_number(name, 1, 1000), .said = {}};
  answer.said = testing::internal::GetCapturedStderr();
  ::unsetenv(name);
  return answer;
}

TEST(Environment, ANumberWithinItsBoundsIsTaken) {
  for (const char* const value : {"1", "1000"}) {
    const Answer answer = read_with("TRIREME_TEST_GOOD", value);
    EXPECT_EQ(answer.number, std::stoll(value));
    EXPECT_THAT(answer.said, IsEmpty());
  }
}

TEST(Environment, UnsetOrEmptyVariablesAreIgnored) {
  EXPECT_EQ(environment_number("TRIREME_TEST_UNSET", 1, 1000), std::nullopt);
  const Answer answer = read_with("TRIREME_TEST_EMPTY", "");
  EXPECT_EQ(answer.number, std::nullopt);
  EXPECT_THAT(answer.said, IsEmpty());
}

TEST(Environment, InvalidValuesAreIgnoredWithAWarningOfNameValueAndBounds) {
  int count = 0;
  for (const char* const value : {"0", "1001", "-1", "12x", "soon", " 5", "1e3", "0x10", "5.0",
                                  "99999999999999999999", "N/A"}) {
    const std::string name = "TRIREME_TEST_BAD_" + std::to_string(count++);
    const Answer answer = read_with(name.c_str(), value);
    EXPECT_EQ(answer.number, std::nullopt) << value;
    EXPECT_THAT(answer.said, AllOf(HasSubstr("[warning]"), HasSubstr(name + "=" + value),
                                   HasSubstr("is not a whole number from 1 to 1000")));
  }
}

TEST(Environment, AVariableThatIsReadTwiceIsWarnedAboutOnce) {
  EXPECT_THAT(read_with("TRIREME_TEST_TWICE", "x").said, HasSubstr("it is ignored"));
  EXPECT_THAT(read_with("TRIREME_TEST_TWICE", "x").said, IsEmpty());
}

TEST(Environment, ALauncherWithoutANumberIsSkipped) {
  ::setenv("OMPI_COMM_WORLD_RANK", "first", 1);
  ::setenv("PMIX_RANK", "3", 1);
  EXPECT_EQ(launched_rank(), 3);
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("PMIX_RANK");
}

}  // namespace
}  // namespace trireme
