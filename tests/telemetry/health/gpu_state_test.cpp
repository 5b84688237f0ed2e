// SPDX-License-Identifier: Apache-2.0
// Readings of a GPU through a fake libnvidia-ml.so.1, which the test finds by its run path.
#include "runtime/telemetry/health/gpu_state.h"

#include <gmock/gmock.h>

#include <cmath>

#include "runtime/telemetry/health/energy.h"
#include "runtime/telemetry/metrics.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* hot = "00000000:65:00.0";

TEST(GpuStateTest, ReadsWhatTheDriverReports) {
  const auto read = gpu_state_reader(hot);
  ASSERT_TRUE(read);

  const GpuState state = read();

  EXPECT_TRUE(state.known);
  EXPECT_DOUBLE_EQ(state.utilization, 0.87);
  EXPECT_DOUBLE_EQ(state.memory_bytes, 2e10);
  EXPECT_DOUBLE_EQ(state.sm_mhz, 1230);
  EXPECT_DOUBLE_EQ(state.celsius, 91);
  EXPECT_TRUE(std::isnan(state.watts)) << "this driver has no such call";
  EXPECT_EQ(slowdown_text(state.slowdowns), "power cap, thermal slowdown");
  EXPECT_TRUE(is_fault(state.slowdowns));
  EXPECT_FALSE(is_fault(0x04)) << "a power cap is usual under load";
}

TEST(GpuStateTest, AnUnknownGpuHasNoReader) {
  EXPECT_FALSE(gpu_state_reader("00000000:66:00.0"));
  EXPECT_THAT(gpu_energy("00000000:66:00.0").problem, HasSubstr("does not know GPU 00000000:66"));
}

TEST(GpuStateTest, EnergyIsTheDifferenceOfTwoReads) {
  const EnergySource source = gpu_energy(hot);
  ASSERT_NE(source.counter, nullptr) << source.problem;

  EXPECT_EQ(source.counter->take(), 1.5);
}

TEST(GpuStateTest, AStepsLineHasEachRanksStateAndTheWorst) {
  StepMetrics metrics{.step = 3};
  EXPECT_EQ(format_json(metrics, ItemKind::tokens).find("gpu"), std::string::npos);
  metrics.gpus = {gpu_state_reader(hot)(), {.utilization = 0.5, .celsius = 60, .known = true}};

  EXPECT_THAT(format_json(metrics, ItemKind::tokens),
              AllOf(HasSubstr(R"("gpu_utilization":0.5,"gpu_memory_bytes":20000000000,)"
                              R"("gpu_sm_mhz":1230,"gpu_celsius":91,"gpus_slowed":1,)"),
                    HasSubstr(R"("gpus":{"utilization":[0.87,0.5],)"
                              R"("memory_bytes":[20000000000.0,null],"sm_mhz":[1230.0,null],)"
                              R"("watts":[null,null],"celsius":[91.0,60.0],)"
                              R"("slowdowns":["power cap, thermal slowdown",""]})")));
}

}  // namespace
}  // namespace trireme
