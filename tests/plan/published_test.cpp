// SPDX-License-Identifier: Apache-2.0
// The model against published measurements, with one hardware file per kind of GPU. What differs
// between the systems is in EngineTraits, never between rows of one system.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/plan/cluster.h"
#include "tests/plan/plans.h"
#include "tests/plan/transformer_layers.h"

namespace trireme::plan::test {
namespace {

enum class Unit : std::uint8_t {
  tera_flops,         // per GPU and second, as published_flops counts them
  tokens_per_second,  // per GPU
  samples_per_second  // per GPU
};

std::string_view name_of(Unit unit) {
  if (unit == Unit::tera_flops) return "TFLOP/s";
  return unit == Unit::tokens_per_second ? "tokens/s" : "samples/s";
}

struct System {
  const char* name;
  const char* hardware;
  EngineTraits engine{};
  bool overlapped_reducer = true;
  double tolerance = 0;
};

// What the model reaches over all rows, with one hardware file per kind of GPU.
constexpr double largest_error = 0.12;

struct Row {
  std::string label;
  Transformer model;
  MeshShape mesh;
  int micro_batch = 1, micro_batches = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  int zero = 1;
  Recompute recompute = Recompute::none;
  Precision precision = Precision::bf16;
  Unit unit = Unit::tera_flops;
  double published = 0;
};

// As Megatron-LM cuts: equal numbers of blocks on all virtual stages, with the embedding and the
// head added at the ends or, where that divides, each in the place of a block.
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
                                .precision = row.precision});
  // Buckets of Megatron-LM grow with the group, FSDP's are blocks; 4 MiB ones would be latency.
  input.bucket_elements = std::int64_t{40} << 20;
  input.engine = system.engine;
  input.overlapped_reducer = system.overlapped_reducer;
  const StepEstimate step = estimate_step(input, hardware_file(system.hardware));
  const double samples = step.samples_per_second / row.mesh.size();
  const double tokens = samples * static_cast<double>(row.model.context);
  if (row.unit == Unit::samples_per_second) return samples;
  if (row.unit == Unit::tokens_per_second) return tokens;
  return tokens * published_flops(row.model) / 1e12;
}

void compare(const System& system, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const double value = predicted(system, row);
    const double error = value / row.published - 1;
    fmt::print("| {} | {} | {} | {} | {:.4g} | {:.4g} | {:+.1f} % |\n", system.name, row.label,
               row.mesh.size(), name_of(row.unit), row.published, value, 100 * error);
    EXPECT_LT(std::abs(error), system.tolerance) << system.name << ", " << row.label;
  }
}

// NVIDIA/Megatron-LM, README.md and images/model_table.png of core_r0.8.0: bf16, sequence 4096,
// vocabulary 131,072, data-parallel 48, "fine-grained overlapping of data-parallel, tensor-parallel
// and pipeline-parallel communication". Hidden sizes and layers are those whose 12 L H^2 + 2 V H
// give the stated sizes; tensor * pipeline follows from the GPU count. The batch is known for 177B
// (1,152 sequences, 24 micro-batches) and taken for all but the last, where the stages need 32; the
// source says that it grows modestly.
std::vector<Row> megatron_rows() {
  const auto row = [](const char* label, std::int64_t hidden, std::int64_t layers, int tensor,
                      int pipeline, int chunks, double published) {
    return Row{.label = label,
               .model = {.layers = layers,
                         .hidden = hidden,
                         .heads = hidden / 128,
                         .kv_heads = hidden / 128,
                         .ffn = 4 * hidden,
                         .vocabulary = 131072,
                         .context = 4096},
               .mesh = {.pipeline = pipeline, .data = 48, .tensor = tensor},
               .micro_batches = pipeline > 8 ? 2 * pipeline : 24,
               .schedule = chunks > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b,
               .chunks = chunks,
               .published = published};
  };
  return {row("1.7B", 2048, 24, 1, 1, 1, 408.8),   row("7.1B", 4096, 30, 2, 1, 1, 465.9),
          row("16B", 6144, 32, 4, 1, 1, 489.1),    row("32B", 7168, 49, 8, 1, 1, 459.6),
          row("70B", 8192, 84, 8, 2, 6, 419.7),    row("119B", 12288, 64, 8, 4, 8, 420.5),
          row("177B", 12288, 96, 8, 6, 8, 432.8),  row("314B", 16384, 96, 8, 8, 6, 474.4),
          row("462B", 18432, 112, 8, 16, 7, 459.9)};
}

// The same README: GPT-3 of 177B, strong scaling at batch 1,152 from 47 % to 42 % of 989.4 TFLOP/s.
std::vector<Row> megatron_strong_rows() {
  Row small = megatron_rows()[6];
  small.label = "177B, batch 1152";
  Row large = small;
  small.mesh.data = 2;
  small.micro_batches = 576;
  small.published = 0.47 * 989.4;
  large.mesh.data = 96;
  large.micro_batches = 12;
  large.published = 0.42 * 989.4;
  return {small, large};
}

// Jiang et al., MegaScale, NSDI 2024, table 2: 175B, A100, sequence 2048, vocabulary 64,000, tensor
// 8, pipeline 8, 6 chunks; seconds of an iteration. `megatron`: its baseline Megatron-LM.
std::vector<Row> megascale_rows(bool megatron) {
  const auto row = [](int gpus, int batch, double seconds) {
    const Transformer model{.layers = 96,
                            .hidden = 12288,
                            .heads = 128,
                            .kv_heads = 128,
                            .ffn = 4 * 12288,
                            .vocabulary = 64000,
                            .context = 2048};
    const int data = gpus / 64;
    const double tokens = batch * 2048.0 / gpus / seconds;
    return Row{.label = fmt::format("175B, batch {}", batch),
               .model = model,
               .mesh = {.pipeline = 8, .data = data, .tensor = 8},
               .micro_batches = batch / data,
               .schedule = ScheduleKind::interleaved,
               .chunks = 6,
               .unit = Unit::tokens_per_second,
               .published = tokens};
  };
  if (megatron) {
    return {row(256, 768, 40.0),    row(512, 768, 21.2),    row(768, 768, 15.2),
            row(1024, 768, 11.9),   row(3072, 6144, 29.02), row(6144, 6144, 14.78),
            row(8192, 6144, 12.24), row(12288, 6144, 8.57)};
  }
  return {row(256, 768, 32.0),   row(512, 768, 16.5),    row(768, 768, 11.5),
          row(1024, 768, 8.9),   row(3072, 6144, 23.66), row(6144, 6144, 12.21),
          row(8192, 6144, 9.56), row(12288, 6144, 6.34)};
}

constexpr Transformer llama_8b{.layers = 32,
                               .hidden = 4096,
                               .heads = 32,
                               .kv_heads = 8,
                               .ffn = 14336,
                               .vocabulary = 128256,
                               .context = 8192,
                               .gated = true};

// pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3: FSDP, 2
// sequences per GPU, selective recomputation of every other operation, tokens per second and GPU.
std::vector<Row> titan_rows(Precision precision, double on_8, double on_128) {
  const auto row = [precision](int gpus, double published) {
    return Row{.label = fmt::format("Llama 3.1 8B {}",
                                    precision_names[static_cast<std::size_t>(precision)]),
               .model = llama_8b,
               .mesh = {.data = gpus},
               .micro_batch = 2,
               .zero = 3,
               .recompute = Recompute::selective,
               .precision = precision,
               .unit = Unit::tokens_per_second,
               .published = published};
  };
  return {row(8, on_8), row(128, on_128)};
}

// Qi et al., Zero Bubble Pipeline Parallelism, 2024, tables 3 and 4: A100, sequence 1024, one stage
// per GPU, samples per second and GPU.
std::vector<Row> zero_bubble_rows() {
  struct Model {
    const char* label;
    std::int64_t layers, heads, hidden;
    int stages, micro_batch, micro_batches;
    double one_f_one_b, zero_bubble;
  };
  std::vector<Row> rows;
  for (const Model& m : {Model{"1.5B", 22, 24, 2304, 8, 6, 24, 11.8, 12.9},
                         Model{"6.2B", 30, 32, 4096, 16, 3, 48, 3.50, 3.88},
                         Model{"14.6B", 46, 40, 5120, 24, 1, 72, 1.40, 1.61},
                         Model{"28.3B", 62, 48, 6144, 32, 1, 96, 0.76, 0.87}}) {
    for (const bool split : {false, true}) {
      rows.push_back({.label = fmt::format("{} {}", m.label, split ? "ZB-1p" : "1F1B"),
                      .model = {.layers = m.layers,
                                .hidden = m.hidden,
                                .heads = m.heads,
                                .kv_heads = m.heads,
                                .ffn = 4 * m.hidden,
                                .vocabulary = 50304,
                                .context = 1024},
                      .mesh = {.pipeline = m.stages},
                      .micro_batch = m.micro_batch,
                      .micro_batches = m.micro_batches,
                      .schedule = split ? ScheduleKind::zero_bubble : ScheduleKind::one_f_one_b,
                      .unit = Unit::samples_per_second,
                      .published = split ? m.zero_bubble : m.one_f_one_b});
    }
  }
  return rows;
}

// Gradients are reduced in fp32, everything else travels in bf16.
constexpr EngineTraits bf16_messages{.gathered_bytes = 2, .partial_sum_bytes = 2};

// Megatron-LM has kernels of their own for norms, dropout, residuals and parts of the activation.
constexpr EngineTraits megatron(double hidden_tensor_messages) {
  EngineTraits traits = bf16_messages;
  traits.elementwise_traffic = 2;
  traits.hidden_tensor_messages = hidden_tensor_messages;
  return traits;
}

// MegaScale's baseline: nothing is hidden.
constexpr EngineTraits without_overlap() {
  EngineTraits traits = megatron(0);
  traits.hides_gathers = traits.hides_transfers = traits.hides_input_gradient_sums = false;
  return traits;
}

// MegaScale fuses them, runs attention and MLP of a block side by side, and sends in pieces beside
// the products.
constexpr EngineTraits megascale() {
  EngineTraits traits = bf16_messages;
  traits.hidden_tensor_messages = 0.8;
  return traits;
}

// torchtitan's selective recomputation keeps every other product and attention.
constexpr EngineTraits torchtitan(double elementwise_traffic) {
  EngineTraits traits = bf16_messages;
  traits.elementwise_traffic = elementwise_traffic;
  traits.selective_products = 0.5;
  return traits;
}

// Grattafiori et al., The Llama 3 Herd of Models, 2024, table 4: 405B, sequences of 8,192, 16 M
// tokens a batch, tensor 8, pipeline 16, no recomputation; interleaved, in how many chunks it does
// not say.
std::vector<Row> llama_3_rows() {
  const auto row = [](int data, double published) {
    return Row{.label = "405B",
               .model = {.layers = 126,
                         .hidden = 16384,
                         .heads = 128,
                         .kv_heads = 8,
                         .ffn = 53248,
                         .vocabulary = 128256,
                         .context = 8192,
                         .gated = true},
               .mesh = {.pipeline = 16, .data = data, .tensor = 8},
               .micro_batches = 2048 / data,
               .schedule = ScheduleKind::interleaved,
               .chunks = 4,
               .published = published};
  };
  return {row(64, 430), row(128, 400)};
}

TEST(Published, LlamaThreeOnH100) {
  compare({"Llama 3", "h100", bf16_messages, true, largest_error}, llama_3_rows());
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
  fmt::print("| Llama 3 | 405B | {} | interruptions in 54 days | 419 | {:.0f} | {:+.1f} % |\n",
             ranks, failures, 100 * (failures / 419 - 1));
  fmt::print("| Llama 3 | 405B | {} | effective training time | > 90 % | {:.1f} % | |\n", ranks,
             100 * run.goodput);

  EXPECT_NEAR(failures, 419, largest_error * 419);
  EXPECT_GT(run.goodput, 0.9);
}

TEST(Published, MegatronCoreOnH100) {
  compare({"Megatron-Core 0.8", "h100", megatron(0.5), true, largest_error}, megatron_rows());
  compare({"Megatron-Core 0.8", "h100", megatron(0.5), true, largest_error},
          megatron_strong_rows());
}

TEST(Published, MegatronLmOnA100AsMegaScaleMeasuredIt) {
  compare({"Megatron-LM (MegaScale)", "a100", without_overlap(), false, largest_error},
          megascale_rows(true));
}

TEST(Published, MegaScaleOnA100) {
  compare({"MegaScale", "a100", megascale(), true, largest_error}, megascale_rows(false));
}

// Eager PyTorch runs each element-wise op as a kernel of its own.
TEST(Published, TorchtitanOnH100) {
  compare({"torchtitan eager", "h100_500w", torchtitan(3), true, largest_error},
          titan_rows(Precision::bf16, 5762, 5605));
  compare({"torchtitan compiled", "h100_500w", torchtitan(1), true, largest_error},
          titan_rows(Precision::bf16, 6667, 6514));
  compare({"torchtitan compiled", "h100_500w", torchtitan(1), true, largest_error},
          titan_rows(Precision::fp8, 8532, 8380));
}

TEST(Published, ZeroBubbleOnA100) {
  compare({"Zero bubble paper", "a100", megatron(0), true, largest_error}, zero_bubble_rows());
}

}  // namespace
}  // namespace trireme::plan::test
