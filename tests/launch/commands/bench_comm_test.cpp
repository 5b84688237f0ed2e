// SPDX-License-Identifier: Apache-2.0
// `trireme bench comm` and its arithmetic.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/bench/comm/links.h"
#include "runtime/plan/comm_cost.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using comm_bench::fit_link;
using comm_bench::fit_network;
using comm_bench::LinkFit;
using comm_bench::TimedBytes;
using testing::AllOf;
using testing::HasSubstr;

TEST(CommFit, FindsTheLineThatTimesLieOn) {
  std::vector<TimedBytes> times;
  for (const double bytes : {4.0, 1e3, 1e5, 1e7})
    times.push_back({bytes, 20e-6 + bytes / 3e9});

  const LinkFit fit = fit_link(times);

  EXPECT_NEAR(fit.latency, 20e-6, 1e-12);
  EXPECT_NEAR(fit.bandwidth, 3e9, 1);
}

TEST(CommFit, HasNoLatencyBelowZeroAndNoBandwidthWithoutGrowth) {
  const LinkFit steep = fit_link(std::vector<TimedBytes>{{1e3, 1e-6}, {2e3, 3e-6}});
  EXPECT_EQ(steep.latency, 0);
  EXPECT_GT(steep.bandwidth, 0);

  const LinkFit flat = fit_link(std::vector<TimedBytes>{{4, 2e-6}, {8, 1e-6}});
  EXPECT_EQ(flat.bandwidth, 0);
  EXPECT_GT(flat.latency, 1e-6);

  EXPECT_DOUBLE_EQ(fit_link(std::vector<TimedBytes>{{12, 5e-6}}).latency, 5e-6);
}

TEST(CommFit, LargeMessagesTakeWhatANetworkBehindBuffersNeeds) {
  const LinkFit fit = fit_network(
      std::vector<TimedBytes>{{256, 1e-4}, {16384, 1e-3}, {262144, 6e-2}, {4194304, 1.4}});
  EXPECT_NEAR(fit.latency + 4194304 / fit.bandwidth, 1.4, 0.01);

  const std::vector<TimedBytes> line{{1e3, 2.1e-5}, {1e6, 1.02e-3}, {1e7, 1.002e-2}};
  EXPECT_NEAR(fit_network(line).bandwidth, 1e9, 1e3);
}

TEST(CommFit, ThePlannersAllReduceTakesWhatWasMeasured) {
  const LinkFit fit{.latency = 60e-6, .bandwidth = 2e9};
  for (const int ranks : {2, 3, 4, 8}) {
    plan::Links links{.domain = ranks};
    links.inside = links.between = comm_bench::link_of_all_reduce(fit, ranks);
    const plan::GroupSpan group = plan::span_of(plan::MeshAxis::data, {.data = ranks}, links);

    for (const double bytes : {1e3, 1e6}) {
      EXPECT_NEAR(plan::seconds_of(plan::Collective::all_reduce, bytes, group, links),
                  fit.latency + bytes / fit.bandwidth, 1e-12)
          << ranks;
    }
  }
}

TEST(CommBandwidth, UsesTheFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Verb::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::all_gather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Verb::recv, 4), 1);
  EXPECT_EQ(comm_bench::size_of(Verb::all_gather, 3, 100), 96);
  EXPECT_EQ(comm_bench::size_of(Verb::all_gather, 3, 4), 12);
  EXPECT_EQ(comm_bench::size_of(Verb::all_reduce, 3, 7), 4);
}

class BenchCommTest : public RunTest {};

TEST_F(BenchCommTest, MeasuresEveryCollectiveOnEveryGroupAndFeedsThePlanner) {
  const std::string report = directory() + "/comm.json", hardware = directory() + "/here.yaml";
  std::filesystem::copy_file(TRIREME_HARDWARE_FILE, hardware);

  const CommandResult result = trireme("bench machine --links " + data_directory() +
                                           "/gpt.yaml --accept-load --set parallel.tensor=2 "
                                           "--max-bytes 4096 --factor 32 --repeats 3 --json " +
                                           report + " --hardware " + hardware,
                                       4);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto groups = nlohmann::json::parse(read_file(report))["groups"];
  ASSERT_EQ(groups.size(), 3U);
  for (const auto& group : groups) {
    EXPECT_EQ(group["ranks"], group["group"] == "world" ? 4 : 2);
    ASSERT_EQ(group["collectives"].size(), 6U);
    for (const auto& collective : group["collectives"]) {
      for (const auto& size : collective["sizes"]) {
        EXPECT_EQ(size["wrong"], 0) << group["group"] << collective["collective"];
        EXPECT_LE(size["fastest_seconds"], size["median_seconds"]);
      }
    }
  }
  const plan::Hardware before = plan::load_hardware(TRIREME_HARDWARE_FILE);
  const plan::Hardware after = plan::load_hardware(hardware);
  // Four ranks of a host that runs more: all of them are inside.
  EXPECT_GT(after.node.ranks, 4);
  EXPECT_EQ(after.node.ranks, before.node.ranks);
  EXPECT_EQ(after.links.domain, after.node.ranks);
  EXPECT_NE(after.links.inside.bandwidth, before.links.inside.bandwidth);
  EXPECT_EQ(after.links.between.bandwidth, before.links.between.bandwidth);
  EXPECT_EQ(after.device.memory_bytes, before.device.memory_bytes);
  EXPECT_THAT(result.output, HasSubstr("between hosts  not measured"));
}

TEST_F(BenchCommTest, AHostWithMoreRanksThanDescribedIsRedescribed) {
  const std::string file = directory() + "/here.yaml";
  std::string text = read_file(TRIREME_HARDWARE_FILE);
  for (const char* const key : {"ranks: ", "domain: "}) {
    const auto at = text.find(key) + std::string(key).size();
    text.replace(at, 2, "2 ");
  }
  write_file(file, text);

  comm_bench::update_hardware_file(
      file, {.ranks_per_host = 3, .inside = plan::Link{.latency = 1e-6, .bandwidth = 1e9}});

  const plan::Hardware after = plan::load_hardware(file);
  EXPECT_EQ(after.node.ranks, 3);
  EXPECT_EQ(after.links.domain, 3);
}

TEST_F(BenchCommTest, RefusesWhatItCannotMeasure) {
  const CommandResult alone = trireme("bench machine --links", 0);
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.output, HasSubstr("start it with mpirun -np N"));

  const CommandResult missing = trireme("bench machine --links --hardware /nowhere/here.yaml", 2);
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.output, HasSubstr("/nowhere/here.yaml"));

  EXPECT_THAT(trireme("bench machine --links --min-bytes 64 --max-bytes 64", 2).output,
              HasSubstr("--min-bytes 64 is not below --max-bytes 64"));
}

}  // namespace
}  // namespace trireme::test
