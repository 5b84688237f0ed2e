// SPDX-License-Identifier: Apache-2.0
// Megatron-LM and derived systems: Megatron-Core on H100, MegaScale and its baseline on A100, the
// zero-bubble schedules on A100.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/plan/published.h"

namespace trireme::plan::test {
namespace {

// Without a gated MLP, and with as many key heads as query heads.
Transformer gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                std::int64_t vocabulary, std::int64_t context) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = 4 * hidden,
          .vocabulary = vocabulary,
          .context = context};
}

// NVIDIA/Megatron-LM, README.md and images/model_table.png of core_r0.8.0 (commit f2e5db402c):
// bf16, sequence 4096, vocabulary 131,072, data-parallel 48; layers, hidden sizes, tensor and
// pipeline sizes, batches and TFLOP/s from the table. Not stated and assumed: micro-batches of one
// sequence, or a replica's whole batch without a pipeline; chunks of one block each, the only
// interleaving of 23 or 7 blocks per stage, but none on two stages, which the README excludes.
std::vector<Row> megatron_core_rows() {
  const auto row = [](const char* label, std::int64_t heads, std::int64_t hidden,
                      std::int64_t layers, int tensor, int pipeline, int batch, double published) {
    const bool interleaved = pipeline > 2;
    return Row{.label = label,
               .model = gpt(layers, hidden, heads, 131072, 4096),
               .mesh = {.pipeline = pipeline, .data = 48, .tensor = tensor},
               .micro_batch = pipeline == 1 ? batch / 48 : 1,
               .micro_batches = pipeline == 1 ? 1 : batch / 48,
               .schedule = interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b,
               .chunks = interleaved ? static_cast<int>(layers) / pipeline : 1,
               .published = published,
               .use = Use::seen};
  };
  std::vector<Row> rows = {row("1.7B", 16, 2048, 24, 1, 1, 192, 408.8),
                           row("7.1B", 32, 4096, 30, 2, 1, 192, 465.9),
                           row("16B", 48, 6144, 32, 4, 1, 192, 489.1),
                           row("32B", 56, 7168, 48, 8, 1, 192, 459.6),
                           row("70B", 64, 8192, 84, 8, 2, 384, 419.7),
                           row("119B", 80, 10240, 92, 8, 4, 768, 420.5),
                           row("177B", 96, 12288, 96, 8, 6, 1152, 432.8),
                           row("314B", 128, 16384, 96, 8, 8, 1536, 474.4),
                           row("462B", 144, 18432, 112, 8, 16, 3072, 459.9)};
  // The same README: 177B at batch 1,152, from 47 % to 42 % of 989.4 TFLOP/s.
  for (const auto& [gpus, published] : {std::pair{96, 0.47 * 989.4}, {4608, 0.42 * 989.4}}) {
    Row strong = rows[6];
    strong.label = "177B, batch 1152";
    strong.mesh.data = gpus / 48;
    strong.micro_batches = 1152 / strong.mesh.data;
    strong.published = published;
    rows.push_back(strong);
  }
  rows.front().use = Use::fit;
  return rows;
}

// The same README: gradients, parameters, tensor- and pipeline-parallel messages travel beside
// computation (--overlap-grad-reduce, --overlap-param-gather, --tp-comm-overlap).
TEST(Published, MegatronCoreOnH100) {
  SystemTraits traits = with_traffic(partly_fused_traffic);
  traits.hidden_tensor_messages = sent_in_pieces;
  compare({"Megatron-Core 0.8", "h100", traits}, megatron_core_rows());
}

// Megatron-LM of January 2023 (commit 285068c8, MegaScale's baseline; the zero-bubble schedules are
// built on the same year's): sums of input gradients overlap with weight gradients, nothing else
// overlaps (arguments.py has no --overlap-grad-reduce).
System megatron_lm(const char* name) {
  SystemTraits traits = with_traffic(partly_fused_traffic);
  traits.hides_gathers = traits.hides_transfers = false;
  return {name, "a100", traits, false};
}

// MegaScale, section 3: parallel attention and MLP, fused LayerNorm and GELU, tensor-parallel
// messages in pieces beside the products, overlapped data- and pipeline-parallel ones.
System megascale() {
  SystemTraits traits = with_traffic(fused_traffic);
  traits.hidden_tensor_messages = sent_in_pieces;
  return {"MegaScale", "a100", traits};
}

// Jiang et al., MegaScale, NSDI 2024, section 6.1 and table 1: sequence 2048, vocabulary 64,000,
// interleaved. Micro-batches are not stated; assumed as one sequence. `tokens`: per GPU and second.
Row megascale_175b(int gpus, int batch, double tokens) {
  const int data = gpus / 64;
  return {.label = fmt::format("175B, batch {}", batch),
          .model = gpt(96, 12288, 128, 64000, 2048),
          .mesh = {.pipeline = 8, .data = data, .tensor = 8},
          .micro_batches = batch / data,
          .schedule = ScheduleKind::interleaved,
          .chunks = 6,
          .unit = Unit::tokens_per_second,
          .published = tokens};
}

// Table 2: seconds of an iteration.
std::vector<Row> megascale_rows(const std::vector<double>& seconds) {
  constexpr int gpus[] = {256, 512, 768, 1024, 3072, 6144, 8192, 12288};
  std::vector<Row> rows;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const int batch = gpus[i] <= 1024 ? 768 : 6144;
    rows.push_back(megascale_175b(gpus[i], batch, batch * 2048 / seconds[i] / gpus[i]));
    rows.back().use = i == 0 ? Use::fit : Use::seen;
  }
  return rows;
}

// Table 3 at batch 256 and figure 9: utilisation of 312 TFLOP/s. `flops_per_token`: of 175B, from
// the iteration times and utilisations of table 2; MegaScale's is smaller because of windowed
// attention.
std::vector<Row> megascale_utilisation(double flops_per_token, double small_batch,
                                       const std::vector<double>& of_530b) {
  std::vector<Row> rows = {megascale_175b(256, 256, small_batch * 312e12 / flops_per_token)};
  constexpr int gpus[] = {2240, 4480, 11200};
  for (std::size_t i = 0; i < of_530b.size(); ++i) {
    const int data = gpus[i] / 280;
    rows.push_back({.label = fmt::format("530B, batch {}", gpus[i]),
                    .model = gpt(105, 20480, 160, 64000, 2048),
                    .mesh = {.pipeline = 35, .data = data, .tensor = 8},
                    .micro_batches = gpus[i] / data,
                    .schedule = ScheduleKind::interleaved,
                    .chunks = 3,
                    .published = of_530b[i] * 312});
  }
  return rows;
}

TEST(Published, MegatronLmOnA100AsMegaScaleMeasuredIt) {
  const System system = megatron_lm("Megatron-LM (MegaScale)");
  compare(system, megascale_rows({40.0, 21.2, 15.2, 11.9, 29.02, 14.78, 12.24, 8.57}));
  compare(system, megascale_utilisation(1.0766e12, 0.477, {0.492, 0.488, 0.482}));
}

TEST(Published, MegaScaleOnA100) {
  compare(megascale(), megascale_rows({32.0, 16.5, 11.5, 8.9, 23.66, 12.21, 9.56, 6.34}));
  compare(megascale(), megascale_utilisation(1.066e12, 0.623, {0.543, 0.541, 0.543}));
}

// Qi et al., Zero Bubble Pipeline Parallelism, 2024, tables 3 and 4: samples per second and GPU,
// one stage per GPU, one block less on the first and last stage; interleaved with a block per
// chunk.
std::vector<Row> zero_bubble_rows() {
  struct Model {
    const char* label;
    std::int64_t layers, heads, hidden;
    int stages, micro_batch;
    int micro_batches[3];
    double one_f_one_b[3], interleaved[3], zero_bubble[3];
  };
  std::vector<Row> rows;
  for (const Model& m : {Model{"1.5B",
                               22,
                               24,
                               2304,
                               8,
                               6,
                               {24, 32, 64},
                               {11.8, 12.5, 13.6},
                               {13.1, 13.4, 13.9},
                               {12.9, 13.4, 14.2}},
                         Model{"6.2B",
                               30,
                               32,
                               4096,
                               8,
                               3,
                               {24, 32, 64},
                               {3.50, 3.70, 4.03},
                               {4.01, 4.08, 4.19},
                               {3.88, 4.00, 4.20}},
                         Model{"14.6B",
                               46,
                               40,
                               5120,
                               16,
                               1,
                               {48, 64, 128},
                               {1.40, 1.49, 1.64},
                               {1.54, 1.59, 1.66},
                               {1.61, 1.67, 1.76}},
                         Model{"28.3B",
                               62,
                               48,
                               6144,
                               32,
                               1,
                               {96, 128, 256},
                               {0.76, 0.80, 0.88},
                               {0.82, 0.85, 0.90},
                               {0.87, 0.90, 0.96}}}) {
    const auto add = [&](const char* schedule, ScheduleKind kind, int chunks,
                         const double(&published)[3], bool seen) {
      for (int i = 0; i < 3; ++i) {
        rows.push_back(
            {.label = fmt::format("{} {}, {} micro-batches", m.label, schedule, m.micro_batches[i]),
             .model = gpt(m.layers, m.hidden, m.heads, 50304, 1024),
             .mesh = {.pipeline = m.stages},
             .micro_batch = m.micro_batch,
             .micro_batches = m.micro_batches[i],
             .schedule = kind,
             .chunks = chunks,
             .unit = Unit::samples_per_second,
             .published = published[i],
             .use = seen && i == 0 ? Use::seen : Use::held_out});
      }
    };
    add("1F1B", ScheduleKind::one_f_one_b, 1, m.one_f_one_b, true);
    add("1F1B-I", ScheduleKind::interleaved, static_cast<int>(m.layers + 2) / m.stages,
        m.interleaved, false);
    add("ZB-1p", ScheduleKind::zero_bubble, 1, m.zero_bubble, true);
  }
  rows.front().use = Use::fit;
  return rows;
}

TEST(Published, ZeroBubbleOnA100) {
  compare(megatron_lm("Zero bubble paper"), zero_bubble_rows());
}

}  // namespace
}  // namespace trireme::plan::test
