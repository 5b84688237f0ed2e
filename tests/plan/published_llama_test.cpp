// SPDX-License-Identifier: Apache-2.0
// Llama 3 as Meta trained it, and as torchtitan trains it on A100 and on H100 at 500 W.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "runtime/plan/cluster.h"
#include "tests/plan/plans.h"
#include "tests/plan/published.h"

namespace trireme::plan::test {
namespace {

Transformer llama(std::int64_t layers, std::int64_t hidden, std::int64_t ffn) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = hidden / 128,
          .kv_heads = 8,
          .ffn = ffn,
          .vocabulary = 128256,
          .context = 8192,
          .gated = true};
}

const Transformer llama_8b = llama(32, 4096, 14336);
const Transformer llama_70b = llama(80, 8192, 28672);

// Grattafiori et al., The Llama 3 Herd of Models, 2024, tables 3 and 4, section 3.3.2: 405B,
// sequences of 8,192, 32 and 16 of them per replica, no recomputation. The first chunk is only the
// embedding and the last only the head, so a chunk is one block. Optimizer state and gradients are
// sharded; gradients are sent in fp32.
std::vector<Row> llama_3_rows() {
  const auto row = [](int data, double published) {
    return Row{.label = "405B",
               .model = llama(126, 16384, 53248),
               .mesh = {.pipeline = 16, .data = data, .tensor = 8},
               .micro_batches = 2048 / data,
               .schedule = ScheduleKind::interleaved,
               .chunks = 8,
               .zero = 2,
               .published = published,
               .use = Use::seen};
  };
  return {row(64, 430), row(128, 400)};
}

// Section 3.3.2 has asynchronous pipeline and data-parallel messages, but mentions neither
// asynchronous tensor-parallel messages nor fused kernels.
TEST(Published, LlamaThreeOnH100) {
  compare({"Llama 3", "h100", with_traffic(partly_fused_traffic)}, llama_3_rows());
}

// The same paper, section 3.3.4: 54 days on 16,384 GPUs saw 419 unexpected interruptions and more
// than 90 % of effective training time.
TEST(Published, InterruptionsOfLlamaThree) {
  const Hardware hardware = hardware_file("h100");
  constexpr int ranks = 16384;
  constexpr double parameters = 405e9, seconds_of_54_days = 54 * 86400.0;
  const double cost = checkpoint_seconds(parameters, ranks, hardware);
  const double mtbf = job_mtbf_seconds(hardware, ranks);
  const CheckpointIntervals intervals =
      checkpoint_intervals(cost, mtbf, hardware.reliability.restart_seconds);
  StepEstimate step;
  step.total = 5;
  const auto every = static_cast<std::int64_t>(intervals.best / step.total);
  const RunEstimate run =
      simulate_run(step, hardware,
                   {.ranks = ranks,
                    .steps = static_cast<std::int64_t>(0.95 * seconds_of_54_days / step.total),
                    .checkpoint_every = std::max<std::int64_t>(every, 1),
                    .checkpoint_seconds = cost});
  const double failures = static_cast<double>(run.failures) * seconds_of_54_days / run.wall;
  fmt::print(
      "| Llama 3 | 405B | {} h100 | interruptions in 54 days | 419 | {:.0f} | {:+.1f} % | fit |\n",
      ranks, failures, 100 * (failures / 419 - 1));
  fmt::print(
      "| Llama 3 | 405B | {} h100 | effective training time | > 90 % | {:.1f} % | | seen |\n",
      ranks, 100 * run.goodput);

  EXPECT_NEAR(failures, 419, 0.12 * 419);
  EXPECT_GT(run.goodput, 0.9);
}

// Keeps every second product, and attention (parallelize_llama.py: "every second mm").
SystemTraits torchtitan(double elementwise_traffic) {
  SystemTraits traits = with_traffic(elementwise_traffic);
  traits.selective_matmuls = 0.5;
  traits.repeats_gathers = true;
  return traits;
}

Row titan_row(std::string label, const Transformer& model, int gpus, int tensor, int batch,
              Recompute recompute, double tokens) {
  return {.label = std::move(label),
          .model = model,
          .mesh = {.data = gpus / tensor, .tensor = tensor},
          .micro_batch = batch,
          .zero = 3,
          .recompute = recompute,
          .unit = Unit::tokens_per_second,
          .published = tokens};
}

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3.
std::vector<Row> titan_fsdp_rows(Precision precision, double on_8, double on_128) {
  std::vector<Row> rows;
  for (const auto& [gpus, tokens] : {std::pair{8, on_8}, {128, on_128}}) {
    rows.push_back(titan_row(fmt::format("Llama 3.1 8B {}", name_of(precision)), llama_8b, gpus, 1,
                             2, Recompute::selective, tokens));
    rows.back().precision = precision;
    rows.back().use = Use::seen;
  }
  return rows;
}

TEST(Published, TorchtitanOnH100) {
  std::vector<Row> eager = titan_fsdp_rows(Precision::bf16, 5762, 5605);
  std::vector<Row> compiled = titan_fsdp_rows(Precision::bf16, 6667, 6514);
  compiled.front().use = Use::fit;
  for (Row& row : titan_fsdp_rows(Precision::fp8, 8532, 8380))
    compiled.push_back(std::move(row));

  compare({"torchtitan eager", "h100_500w", torchtitan(eager_traffic)}, eager);
  compare({"torchtitan compiled", "h100_500w", torchtitan(fused_traffic)}, compiled);
}

// benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md (fp8: tensorwise) and table 4 of the other:
// compiled, 8 tensor-parallel ranks; 70B: 32 data-parallel groups of 16 sequences, full
// recomputation; 8B: 8 of 12, selective. Only async TP overlaps messages with computation.
TEST(Published, TorchtitanWithTensorParallelismOnH100) {
  const auto rows = [](Precision precision, double of_8b, std::initializer_list<double> of_70b) {
    std::vector<Row> rows = {
        titan_row("Llama 3.1 8B", llama_8b, 64, 8, 12, Recompute::selective, of_8b)};
    for (const double tokens : of_70b)
      rows.push_back(titan_row("Llama 3.1 70B", llama_70b, 256, 8, 16, Recompute::full, tokens));
    for (Row& row : rows) {
      row.use = Use::seen;  // they showed a fault of the model
      row.precision = precision;
      row.label += fmt::format(" {}", name_of(precision));
    }
    return rows;
  };
  SystemTraits traits = torchtitan(fused_traffic);
  traits.hides_input_gradient_sums = false;
  SystemTraits in_pieces = traits;
  in_pieces.hidden_tensor_messages = sent_in_pieces;

  const System plain{"torchtitan compiled, TP", "h100_500w", traits};
  compare(plain, rows(Precision::bf16, 4378, {597.3}));
  compare(plain, rows(Precision::fp8, 5078.1, {809.8, 829}));
  const System async{"torchtitan compiled, async TP", "h100_500w", in_pieces};
  compare(async, rows(Precision::bf16, 4809.4, {652.4}));
  compare(async, rows(Precision::fp8, 5570.1, {942.4, 876}));
}

// docs/performance.md of commit 4d88a8a44: FSDP on 64 GPUs, a sequence each, no optimizations
// named.
TEST(Published, TorchtitanOnA100) {
  compare({"torchtitan eager", "a100", torchtitan(eager_traffic)},
          {titan_row("Llama 3 8B bf16", llama_8b, 64, 1, 1, Recompute::selective, 2973),
           titan_row("Llama 3 70B bf16", llama_70b, 64, 1, 1, Recompute::full, 331)});
}

}  // namespace
}  // namespace trireme::plan::test
