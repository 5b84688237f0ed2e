// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/energy.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::TemporaryDirectory;
using test::write_text;
using testing::HasSubstr;

// As /sys/class/powercap: packages, their parts, and duplicates.
class PowercapTest : public testing::Test {
 protected:
  void SetUp() override {
    zone("intel-rapl:0", "package-0", 5000000);
    zone("intel-rapl:0:0", "core", 1000000);
    zone("intel-rapl:1", "package-1", 999000000);
    zone("intel-rapl:2", "psys", 70000000);
    zone("intel-rapl-mmio:0", "package-0", 5000000);
  }
  void zone(const std::string& name, const std::string& what, std::uint64_t microjoules) const {
    std::filesystem::create_directories(directory_.file(name));
    write_text(directory_.file(name + "/name"), what + "\n");
    write_text(directory_.file(name + "/max_energy_range_uj"), "1000000000\n");
    count(name, microjoules);
  }
  // In place, as in sysfs.
  void count(const std::string& name, std::uint64_t microjoules) const {
    write_text(directory_.file(name + "/energy_uj"), std::to_string(microjoules) + "\n");
  }
  TemporaryDirectory directory_;
};

TEST_F(PowercapTest, SumsEachPackageOfAHostOnce) {
  const EnergySource source = package_energy(directory_.path());
  ASSERT_NE(source.counter, nullptr) << source.problem;
  EXPECT_EQ(source.counter->take(), 0.0);

  count("intel-rapl:0", 7500000);
  count("intel-rapl:0:0", 900000000);
  count("intel-rapl:1", 999500000);
  count("intel-rapl:2", 900000000);

  EXPECT_DOUBLE_EQ(source.counter->take().value(), 3.0);
  EXPECT_EQ(source.counter->take(), 0.0);
}

TEST_F(PowercapTest, WrapsAtItsRange) {
  const EnergySource source = package_energy(directory_.path());
  count("intel-rapl:1", 2000000);

  EXPECT_DOUBLE_EQ(source.counter->take().value(), 3.0);
}

TEST_F(PowercapTest, UnreadableCountersAreAbsentNotZero) {
  const EnergySource source = package_energy(directory_.path());
  write_text(directory_.file("intel-rapl:1/energy_uj"), "");
  EXPECT_EQ(source.counter->take(), std::nullopt);
  count("intel-rapl:1", 999900000);
  EXPECT_EQ(source.counter->take(), std::nullopt);  // would cover two intervals of one package
  count("intel-rapl:1", 999950000);
  EXPECT_DOUBLE_EQ(source.counter->take().value(), 0.05);
}

TEST_F(PowercapTest, AHostWithoutCountersOrWithOneThatIsNotReadableHasNone) {
  EXPECT_THAT(package_energy(directory_.file("nowhere")).problem, HasSubstr("no RAPL package"));
  std::filesystem::remove(directory_.file("intel-rapl:1/energy_uj"));
  const EnergySource source = package_energy(directory_.path());
  EXPECT_EQ(source.counter, nullptr);
  EXPECT_THAT(source.problem, HasSubstr("intel-rapl:1/energy_uj: cannot be read: No such file"));
  write_text(directory_.file("intel-rapl:1/energy_uj"), "lots\n");
  EXPECT_EQ(package_energy(directory_.path()).counter, nullptr);
}

TEST(GpuEnergy, WithoutADriverThereIsNone) {
  const EnergySource source = gpu_energy("no such address");
  EXPECT_EQ(source.counter, nullptr);
  EXPECT_FALSE(source.problem.empty());
}

}  // namespace
}  // namespace trireme
