// SPDX-License-Identifier: Apache-2.0
// A rank that computes wrong or slowly, and a link that corrupts data or is slow, are detected and
// named.
#include "runtime/train/health/self_test.h"

#include <gmock/gmock.h>

#include "runtime/train/health/health_report.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A product in whole numbers.
std::vector<float> exact_sums(std::int64_t n, std::int64_t times) {
  std::vector<float> sums(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < n; ++k)
        sum += test_entry(0, k * n + i) * test_entry(1, k * n + j);
      sums[static_cast<std::size_t>(i * n + j)] = static_cast<float>(times * sum);
    }
  return sums;
}

TEST(WrongRows, AreNoneInACorrectProduct) {
  EXPECT_EQ(wrong_rows(exact_sums(24, 3), 24, 3), 0);
}

TEST(WrongRows, CountRowsWithAFlippedBitAtAnyPlace) {
  const std::vector<float> right = exact_sums(24, 3);
  for (std::size_t at = 0; at < right.size(); at += 5)
    for (const unsigned bit : {0U, 12U, 23U, 30U, 31U}) {
      std::vector<float> sums = right;
      std::uint32_t word = 0;
      std::memcpy(&word, &sums[at], sizeof word);
      word ^= 1U << bit;
      std::memcpy(&sums[at], &word, sizeof word);
      const bool zero_sign = bit == 31 && right[at] == 0;  // -0 is 0

      EXPECT_EQ(wrong_rows(sums, 24, 3), zero_sign ? 0 : 1) << at << " bit " << bit;
    }
}

TEST(WrongRows, CountNaN) {
  std::vector<float> sums = exact_sums(24, 1);
  sums[30] = std::numeric_limits<float>::quiet_NaN();
  sums[60] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(wrong_rows(sums, 24, 1), 2);
}

std::vector<HealthSample> ranks_like(std::size_t count, const HealthSample& sample) {
  return std::vector<HealthSample>(count, sample);
}

constexpr HealthSample good{.gflops = 100, .link_mb_per_s = 1000};

TEST(HealthReport, EqualRanksAreNeitherSlowNorWrong) {
  const std::vector<std::string> hosts(4, "n1");

  const HealthReport report = judge_health(ranks_like(4, good), hosts);

  EXPECT_THAT(report.slow, IsEmpty());
  EXPECT_THAT(report.wrong, IsEmpty());
  EXPECT_EQ(
      report.summary,
      "4 of 4 rank(s) compute correctly, 100.0 to 100.0 GFLOP/s; links carry 1000 to 1000 MB/s");
}

TEST(HealthReport, ASlowRankIsNamedWithItsHostAlsoOfTwo) {
  std::vector<HealthSample> ranks = ranks_like(2, good);
  ranks[1].gflops = 40;

  EXPECT_THAT(judge_health(ranks, std::vector<std::string>{"n1", "n2"}).slow,
              ElementsAre("rank 1 on n2 computes at 40.0 GFLOP/s, the others at 100.0"));
}

TEST(HealthReport, LinksAreComparedWithLinksOfTheirKind) {
  std::vector<HealthSample> ranks = ranks_like(8, good);
  // From rank 1 to 2, 3 to 4 and so on the ring leaves the host.
  const std::vector<std::string> hosts{"a", "a", "b", "b", "c", "c", "d", "d"};
  for (const std::size_t rank : {0U, 2U, 4U, 6U})
    ranks[rank].link_mb_per_s = 100;
  EXPECT_THAT(judge_health(ranks, hosts).slow, IsEmpty());

  ranks[4].link_mb_per_s = 40;
  ranks[7].link_mb_per_s = 300;

  EXPECT_THAT(
      judge_health(ranks, hosts).slow,
      ElementsAre(
          "the link from rank 3 on b to rank 4 on c carries 40 MB/s, others between hosts 100",
          "the link from rank 6 on d to rank 7 on d carries 300 MB/s, others within a host 1000"));
}

TEST(HealthReport, BetterSpeedsAndWorseResultsOfTwoTestsCount) {
  std::vector<HealthSample> first = ranks_like(2, good), second = first;
  first[0].gflops = 20;
  first[1].wrong_rows = 3;
  second[1].link_mb_per_s = 1;

  const std::vector<HealthSample> both = both_of(first, second);

  EXPECT_EQ(both[0].gflops, 100);
  EXPECT_EQ(both[1].wrong_rows, 3);
  EXPECT_EQ(both[1].link_mb_per_s, 1000);
}

TEST(HealthReport, WrongResultsAreNamed) {
  std::vector<HealthSample> ranks = ranks_like(3, good);
  ranks[0].wrong_words = 2;
  ranks[1].wrong_rows = 1;

  EXPECT_THAT(judge_health(ranks, std::vector<std::string>{"n1", "n2", "n3"}).wrong,
              ElementsAre("data that rank 2 on n3 sends to rank 0 on n1 arrives changed (2 words)",
                          "rank 1 on n2 computes a wrong result for a known matmul (1 rows)"));
}

class SelfTestTest : public test::MpiTest {};

TEST_F(SelfTestTest, EveryRankLearnsThatAllAreRightInEveryDtype) {
  const auto device = Device::create(DeviceType::cpu);
  Streams streams(*device);
  const ProcessMesh mesh(world(), MeshShape{.data = world().size()});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SelfTest test(*device, mesh, streams, dtype);
    // The second round starts from the first one's state.
    for (int round = 0; round < 2; ++round) {
      const std::vector<HealthSample> all = test.run();
      ASSERT_EQ(all.size(), static_cast<std::size_t>(world().size()));
      for (const HealthSample& sample : all) {
        EXPECT_EQ(sample.wrong_rows, 0) << name_of(dtype);
        EXPECT_EQ(sample.wrong_words, 0);
        EXPECT_GT(sample.gflops, 0);
        EXPECT_EQ(sample.link_mb_per_s > 0, world().size() > 1);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
