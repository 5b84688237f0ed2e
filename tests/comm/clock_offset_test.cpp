// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/timing/clock_offset.h"

#include <cmath>

#include "runtime/device/trace/trace_clock.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

class Clocks : public test::MpiTest {
 protected:
  ~Clocks() override { TraceClock::put_ahead(0); }
};

// The ranks of a test share one host's clock; one of them is set ahead.
TEST_F(Clocks, DifferByTheGivenOffsetWithinTheStatedError) {
  for (const std::int64_t ahead : {std::int64_t{0}, std::int64_t{5'000'000},
                                   std::int64_t{-3'000'000'000}, std::int64_t{777}}) {
    const int odd = size() - 1;
    TraceClock::put_ahead(rank() == odd ? ahead : 0);

    const std::vector<ClockReading> clocks = read_clocks(world());

    ASSERT_EQ(clocks.size(), static_cast<std::size_t>(size()));
    for (int r = 0; r < size(); ++r) {
      const ClockReading& clock = clocks[static_cast<std::size_t>(r)];
      const std::int64_t expected = r == odd && odd > 0 ? ahead : 0;
      EXPECT_LE(std::abs(clock.offset - expected), clock.error) << "rank " << r;
      EXPECT_LT(clock.error, 1'000'000'000);
      EXPECT_EQ(clock.error > 0, expected != 0) << "rank " << r;
    }
    world().barrier();
  }
}

TEST(ClockLines, GoThroughBothReadings) {
  // Ahead by 1 ms, and in a second by 20 us more.
  const ClockLine line({.at = 1'000'000'000, .offset = 1'000'000, .error = 10'000},
                       {.at = 2'000'000'000, .offset = 1'020'000, .error = 5'000});

  EXPECT_FALSE(line.jumped());
  EXPECT_EQ(line.to_rank_0(1'000'000'000), 999'000'000);
  EXPECT_EQ(line.to_rank_0(1'500'000'000), 1'498'990'000);
  EXPECT_EQ(line.to_rank_0(2'000'000'000), 1'998'980'000);
  EXPECT_NEAR(line.drift_ppm(), 20, 1e-6);
  EXPECT_EQ(line.error(), 10'000);
}

TEST(ClockLines, DetectAClockThatWasSet) {
  const ClockLine line({.at = 1'000'000'000, .offset = 0, .error = 10'000},
                       {.at = 2'000'000'000, .offset = 50'000'000, .error = 5'000});

  EXPECT_TRUE(line.jumped());
  EXPECT_EQ(line.to_rank_0(2'000'000'000), 1'950'000'000);
  EXPECT_EQ(line.error(), 5'000);
}

}  // namespace
}  // namespace trireme
