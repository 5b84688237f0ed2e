// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "runtime/device/cpu/cpu_feature_bits.h"
#include "runtime/device/device.h"

namespace trireme {
namespace {

constexpr CpuFeatures bit(CpuFeatureBit feature) {
  return CpuFeatures{1} << static_cast<unsigned>(feature);
}

std::string missing(CpuFeatures built, CpuFeatures present) {
  std::array<char, 64> text{};
  const bool any = missing_features(built, present, text.data(), text.size());
  EXPECT_EQ(any, text[0] != '\0');
  return text.data();
}

TEST(CpuFeatures, ThisMachineRunsThisBuild) {
  EXPECT_EQ(missing(build_features(), present_features()), "");
  check_cpu_supports_build();
}

TEST(CpuFeatures, TheBuildKnowsWhatTheCompilerMayEmit) {
#if defined(__AVX2__)
  EXPECT_NE(build_features() & bit(CpuFeatureBit::avx2), 0U);
#else
  EXPECT_EQ(build_features() & bit(CpuFeatureBit::avx2), 0U);
#endif
#if defined(__AVX512F__)
  EXPECT_NE(build_features() & bit(CpuFeatureBit::avx512f), 0U);
#else
  EXPECT_EQ(build_features() & bit(CpuFeatureBit::avx512f), 0U);
#endif
}

TEST(CpuFeatures, MissingOnesAreNamed) {
  const CpuFeatures built =
      bit(CpuFeatureBit::avx2) | bit(CpuFeatureBit::fma) | bit(CpuFeatureBit::avx512f);

  EXPECT_EQ(missing(built, bit(CpuFeatureBit::avx2)), "fma avx512f");
  EXPECT_EQ(missing(built, ~CpuFeatures{0}), "");
}

TEST(CpuFeatures, LongListsAreCutNotOverrun) {
  std::array<char, 8> text{};

  EXPECT_TRUE(missing_features(~CpuFeatures{0}, 0, text.data(), text.size()));

  EXPECT_EQ(std::string(text.data()).size(), 7U);
}

TEST(CpuFeatures, NativeBf16FollowsTheProcessor) {
  EXPECT_EQ(Device::create(DeviceType::cpu)->has_native_bf16(), cpu_has_bf16());
}

TEST(CpuFeatures, NativeBf16FollowsTheLimitOfTheLibraryThatMultiplies) {
  for (const char* const limit : {"AVX2", "sse41", "AVX"}) {
    ::setenv("DNNL_MAX_CPU_ISA", limit, 1);
    EXPECT_FALSE(cpu_has_bf16()) << limit;
  }
  const bool unlimited = (::unsetenv("DNNL_MAX_CPU_ISA"), cpu_has_bf16());
  ::setenv("DNNL_MAX_CPU_ISA", "AVX512_CORE_AMX", 1);
  EXPECT_EQ(cpu_has_bf16(), unlimited);
  ::unsetenv("DNNL_MAX_CPU_ISA");
}

}  // namespace
}  // namespace trireme
