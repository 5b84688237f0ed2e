// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/error.h"
#include "tests/plan/plans.h"
#include "tests/support/expect_error.h"

namespace trireme::plan::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A complete file with one line replaced.
std::string file_with(const std::string& line, const std::string& replacement) {
  std::string text = R"(name: two cores
device:
  memory_bytes: 8e9
  memory_bandwidth: 12e9
peak_flops:
  fp32: 104e9
efficiency:
  matmul: 0.8
  attention: 0.4
  convolution: 0.6
  memory: 0.8
node:
  ranks: 2
links:
  domain: 2
  rails: 1
  inside_latency: 20e-6
  inside_bandwidth: 3e9
  between_latency: 50e-6
  between_bandwidth: 1.1e9
)";
  if (line.empty()) return text;
  const auto at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), replacement);
}

std::string message_of(const std::string& text) {
  try {
    static_cast<void>(parse_hardware(text, "a.yaml"));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    return error.what();
  }
  return "accepted";
}

TEST(HardwareFiles, OfTheRepositoryLoad) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/hardware")) {
    if (entry.path().extension() != ".yaml") continue;
    const Hardware hardware = load_hardware(entry.path().string());
    EXPECT_FALSE(hardware.name.empty()) << entry.path();
    EXPECT_GE(hardware.node.ranks, 1) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 5);
}

TEST(HardwareFiles, ReadBackAsWritten) {
  for (const char* const name : {"h100", "a100", "cpu_example"}) {
    const Hardware first = hardware_file(name);
    const std::string text = to_yaml(first, "two\nlines");
    EXPECT_TRUE(text.starts_with("# two\n# lines\nname: ")) << text;

    const Hardware second = parse_hardware(text, name);

    EXPECT_EQ(to_yaml(second, "two\nlines"), text);
    EXPECT_EQ(second.device.peak_flops, first.device.peak_flops);
    EXPECT_EQ(second.links.between.bandwidth, first.links.between.bandwidth);
  }
}

TEST(HardwareFiles, HaveDefaultsForOptionalKeys) {
  const Hardware hardware = parse_hardware(file_with("", ""), "a.yaml");

  EXPECT_EQ(hardware.links.overlap, 1);
  EXPECT_EQ(hardware.node.cores, 0);
  EXPECT_EQ(hardware.flops(Precision::bf16), 0);
}

TEST(Efficiency, OfAttentionIsMixedBetweenHeadsOf64AndOf128) {
  const Efficiency same{.attention = 0.4};
  const Efficiency mixed{.attention = 0.5, .attention_64 = 0.3};

  EXPECT_EQ(same.attention_of(64), 0.4);
  EXPECT_EQ(mixed.attention_of(32), 0.3);
  EXPECT_DOUBLE_EQ(mixed.attention_of(96), 0.4);
  EXPECT_EQ(mixed.attention_of(256), 0.5);
}

TEST(Traffic, TakesTheLongerOfItsBytesAndItsFlopsAndALaunch) {
  Hardware hardware;
  hardware.device.memory_bandwidth = 100;
  hardware.device.launch_seconds = 1;
  hardware.device.peak_flops[static_cast<std::size_t>(Precision::bf16)] = 1000;
  hardware.efficiency = {.matmul = 0.5, .memory = 0.5, .half_dimension = 4};

  const auto seconds = [&](const Traffic& work) {
    return seconds_of(work, Precision::bf16, hardware);
  };
  EXPECT_EQ(seconds({.read = 150, .written = 50}), 4 + 1);
  EXPECT_EQ(
      seconds({.rate = WorkRate::matmul, .read = 150, .written = 50, .flops = 500, .smallest = 4}),
      4 + 1);
  EXPECT_EQ(
      seconds({.rate = WorkRate::matmul, .read = 150, .written = 50, .flops = 5000, .smallest = 4}),
      20 + 1);
  EXPECT_THROW(static_cast<void>(seconds_of({.flops = 1}, Precision::fp8, {})), Error);
}

TEST(HardwareFiles, RefuseAnUnknownKeyWithItsLineAndTheNearestOne) {
  EXPECT_THAT(message_of(file_with("  matmul:", "  matmuls:")),
              AllOf(HasSubstr("a.yaml:8: efficiency.matmuls: unknown key"),
                    HasSubstr("did you mean matmul?")));
  EXPECT_THAT(message_of(file_with("node:", "nodes:")),
              AllOf(HasSubstr("a.yaml:12: nodes: unknown key"), HasSubstr("node")));
  EXPECT_THAT(
      message_of(file_with("node:", "counted:\n  matmul: 0.5\nnode:")),
      HasSubstr("a.yaml:12: counted: is no section any more; give its values in efficiency"));
}

TEST(HardwareFiles, RefuseValuesOutOfRangeOrOfTheWrongType) {
  EXPECT_THAT(message_of(file_with("matmul: 0.8", "matmul: 1.5")),
              AllOf(HasSubstr("a.yaml:8: efficiency.matmul: 1.5 is out of range"),
                    HasSubstr("allowed: 0.0001 to 1")));
  EXPECT_THAT(message_of(file_with("ranks: 2", "ranks: 2.5")),
              HasSubstr("a.yaml:13: node.ranks: expected an integer"));
  EXPECT_THAT(message_of(file_with("fp32: 104e9", "fp32: fast")),
              HasSubstr("a.yaml:6: peak_flops.fp32: expected a number, found the text \"fast\""));
  EXPECT_THAT(message_of(file_with("name: two cores", "name:")),
              HasSubstr("a.yaml:1: name: expected text"));
  EXPECT_THAT(message_of(file_with("peak_flops:\n  fp32: 104e9", "peak_flops: 104e9")),
              HasSubstr("a.yaml:5: peak_flops: expected keys such as fp32"));
}

TEST(HardwareFiles, RefuseAMissingOrDoubledKey) {
  EXPECT_THAT(message_of(file_with("  rails: 1\n", "")),
              HasSubstr("a.yaml: links.rails is missing"));
  EXPECT_THAT(message_of(file_with("  rails: 1\n", "  rails: 1\n  rails: 2\n")),
              HasSubstr("a.yaml:17: "));
  EXPECT_THAT(message_of(""), HasSubstr("a.yaml:1: expected keys such as name"));
}

TEST(HardwareFiles, NameTheFileThatCannotBeRead) {
  EXPECT_THROW(static_cast<void>(load_hardware("configs/hardware/absent.yaml")), Error);
}

TEST(Hardware, ASliceIsADeviceOfItsOwn) {
  const std::string text = R"(
name: GPU
device: {memory_bytes: 85899345920, memory_bandwidth: 8e12}
peak_flops: {fp32: 7e12, bf16: 70e12}
efficiency: {matmul: 1, attention: 1, convolution: 1, memory: 1}
node: {ranks: 8}
links: {domain: 8, rails: 8, inside_latency: 1e-6, inside_bandwidth: 360e9, between_latency: 1e-5, between_bandwidth: 40e9}
)";
  const Hardware whole = parse_hardware(text, "gpu.yaml");
  const Hardware slice = slice_of(whole, "3g.40gb");
  EXPECT_EQ(slice.name, "GPU 3g.40gb");
  EXPECT_EQ(slice.device.memory_bytes, 40.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(slice.device.memory_bandwidth, 4e12);
  EXPECT_DOUBLE_EQ(slice.flops(Precision::bf16), 30e12);
  EXPECT_EQ(slice.node.ranks, 16);
  EXPECT_EQ(slice.links.domain, 1);
  EXPECT_DOUBLE_EQ(slice.links.between.bandwidth, 20e9);
  EXPECT_EQ(slice_of(whole, "1g.10gb").node.ranks, 56);
  for (const char* const wrong : {"", "3g", "3g.40", "8g.80gb", "0g.10gb", "3g.40gb2", "7g.100gb"})
    ::trireme::test::expect_error(
        ExitCode::config, [&] { (void)slice_of(whole, wrong); }, "--slice", wrong);
}

}  // namespace
}  // namespace trireme::plan::test
