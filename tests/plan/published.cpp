// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/published.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/plan/plans.h"

namespace trireme::plan::test {
namespace {

std::string_view name_of(Unit unit) {
  if (unit == Unit::tera_flops) return "TFLOP/s";
  return unit == Unit::tokens_per_second ? "tokens/s" : "samples/s";
}

std::string_view name_of(Use use) {
  if (use == Use::fit) return "fit";
  return use == Use::seen ? "seen" : "held out";
}

std::string text_of(double rate) {
  return rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate);
}

// Slightly above the model's largest error.
double largest_error(Use use) {
  if (use == Use::fit) return 0.08;
  return use == Use::seen ? 0.28 : 0.2;
}

// Megatron-LM's cut: equal numbers of blocks on all virtual stages; embedding and head are added at
// the ends or, if that divides evenly, each replaces a block.
std::vector<std::int64_t> equal_stages(const Row& row) {
  const std::int64_t stages = std::int64_t{row.mesh.pipeline} * row.chunks;
  if ((row.model.layers + 2) % stages == 0)
    return std::vector<std::int64_t>(static_cast<std::size_t>(stages),
                                     (row.model.layers + 2) / stages);
  if (row.model.layers % stages != 0) return {};
  std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), row.model.layers / stages);
  ++layers.front();
  ++layers.back();
  return layers;
}

// Efficiencies that rows were fitted to. Those of the files for H100s are of counted work, which
// has more in it.
Hardware hardware_of(const System& system) {
  Hardware hardware = hardware_file(system.hardware);
  if (hardware.device.compute_capability == 90)
    hardware.efficiency = {.matmul = 0.58,
                           .attention = 0.45,
                           .convolution = 0.45,
                           .memory = 0.65,
                           .half_dimension = 200};
  return hardware;
}

double predicted(const System& system, const Row& row) {
  StepInput input = plan_input({.model = row.model,
                                .mesh = row.mesh,
                                .micro_batch = row.micro_batch,
                                .micro_batches = row.micro_batches,
                                .schedule = row.schedule,
                                .chunks = row.chunks,
                                .stage_layers = equal_stages(row),
                                .zero = row.zero,
                                .sequence = row.mesh.tensor > 1,
                                .recompute = row.recompute,
                                .precision = row.precision,
                                .engine = system.engine});
  // Buckets of Megatron-LM grow with the group, FSDP's are blocks; 4 MiB ones would be latency.
  input.bucket_elements = std::int64_t{40} << 20;
  input.overlapped_reducer = system.overlapped_reducer;
  const StepEstimate step = estimate_step(input, hardware_of(system));
  const double samples = step.samples_per_second / row.mesh.size();
  const double tokens = samples * static_cast<double>(row.model.context);
  if (row.unit == Unit::samples_per_second) return samples;
  if (row.unit == Unit::tokens_per_second) return tokens;
  return tokens * published_flops(row.model) / 1e12;
}

}  // namespace

void compare(const System& system, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const double value = predicted(system, row);
    const double error = value / row.published - 1;
    fmt::print("| {} | {} | {} {} | {} | {} | {} | {:+.1f} % | {} |\n", system.name, row.label,
               row.mesh.size(), system.hardware, name_of(row.unit), text_of(row.published),
               text_of(value), 100 * error, name_of(row.use));
    EXPECT_LT(std::abs(error), largest_error(row.use)) << system.name << ", " << row.label;
  }
}

}  // namespace trireme::plan::test
