// SPDX-License-Identifier: Apache-2.0
// MosaicML's MPT models under FSDP and llm.c's GPT-2, on A100 and H100.
#include <gtest/gtest.h>

#include "tests/plan/published.h"

namespace trireme::plan::test {
namespace {

// mosaicml/llm-foundry, scripts/train/benchmarking/README.md: every row of sequence 2048 in bf16 on
// 80 GB GPUs; models of scripts/train/yamls/pretrain/mpt-*.yaml.
struct Mpt {
  const char* label;
  std::int64_t layers, hidden, heads;
};
constexpr Mpt mpt_125m{"MPT 125M", 12, 768, 12}, mpt_350m{"MPT 350M", 24, 1024, 16},
    mpt_760m{"MPT 760M", 24, 1536, 12}, mpt_1b{"MPT 1B", 24, 2048, 16},
    mpt_3b{"MPT 3B", 32, 2560, 20}, mpt_7b{"MPT 7B", 32, 4096, 32},
    mpt_13b{"MPT 13B", 40, 5120, 40}, mpt_30b{"MPT 30B", 48, 7168, 56},
    mpt_70b{"MPT 70B", 80, 8192, 64};

struct MptRun {
  Mpt model;
  int gpus, micro_batch, micro_batches;
  bool recompute;
  double tokens;  // per GPU and second
  int zero = 3;   // FULL_SHARD; 2 = SHARD_GRAD_OP
};

std::vector<Row> mpt_rows(std::initializer_list<MptRun> runs) {
  std::vector<Row> rows;
  for (const MptRun& run : runs) {
    rows.push_back({.label = run.model.label,
                    .model = {.layers = run.model.layers,
                              .hidden = run.model.hidden,
                              .heads = run.model.heads,
                              .kv_heads = run.model.heads,
                              .ffn = 4 * run.model.hidden,
                              .vocabulary = 50368,
                              .context = 2048},
                    .mesh = {.data = run.gpus},
                    .micro_batch = run.micro_batch,
                    .micro_batches = run.micro_batches,
                    .zero = run.zero,
                    .recompute = run.recompute ? Recompute::full : Recompute::none,
                    .unit = Unit::tokens_per_second,
                    .published = run.tokens});
  }
  return rows;
}

// Eager PyTorch with flash attention; parameters travel in bf16, gradients in fp32
// (mosaicml/composer, mosaic_fsdp_utils.py: mixed precision DEFAULT).
System mosaicml(const char* hardware) {
  return {"MosaicML", hardware, with_traffic(eager_traffic)};
}

TEST(Published, MosaicMlOnH100) {
  compare(mosaicml("h100"),
          mpt_rows({{mpt_70b, 512, 8, 1, true, 1007},      {mpt_70b, 256, 8, 1, true, 1035},
                    {mpt_70b, 128, 8, 1, true, 1058},      {mpt_30b, 512, 8, 1, true, 2115},
                    {mpt_30b, 256, 8, 1, true, 2148},      {mpt_30b, 128, 8, 1, true, 2199},
                    {mpt_13b, 512, 16, 1, true, 4952},     {mpt_13b, 256, 16, 1, true, 4989},
                    {mpt_13b, 128, 16, 1, true, 5080},     {mpt_7b, 512, 6, 1, false, 9670},
                    {mpt_7b, 256, 6, 1, false, 10119},     {mpt_7b, 128, 6, 1, false, 10475},
                    {mpt_3b, 512, 8, 1, false, 21664, 2},  {mpt_3b, 256, 8, 1, false, 22772, 2},
                    {mpt_3b, 128, 8, 1, false, 23422, 2},  {mpt_1b, 512, 12, 1, false, 39837, 2},
                    {mpt_1b, 256, 12, 1, false, 42555, 2}, {mpt_1b, 128, 12, 1, false, 44123, 2},
                    {mpt_70b, 64, 8, 4, true, 1039},       {mpt_70b, 32, 2, 16, true, 882},
                    {mpt_30b, 32, 14, 3, true, 2308},      {mpt_30b, 16, 10, 3, true, 2263},
                    {mpt_30b, 8, 3, 21, true, 2002},       {mpt_13b, 64, 2, 1, false, 4800},
                    {mpt_13b, 32, 2, 1, false, 4811},      {mpt_13b, 16, 2, 1, false, 4767},
                    {mpt_13b, 8, 2, 1, false, 4792},       {mpt_7b, 8, 6, 1, false, 10643},
                    {mpt_3b, 64, 6, 3, false, 22525},      {mpt_3b, 32, 6, 3, false, 23021},
                    {mpt_3b, 16, 10, 3, false, 24142},     {mpt_1b, 64, 20, 1, false, 44402},
                    {mpt_1b, 32, 20, 1, false, 45130},     {mpt_1b, 16, 20, 1, false, 46037},
                    {mpt_1b, 8, 14, 1, false, 45455},      {mpt_760m, 32, 24, 1, false, 67971},
                    {mpt_760m, 16, 24, 1, false, 68551},   {mpt_760m, 8, 24, 2, false, 63147}}));
}

TEST(Published, MosaicMlOnA100) {
  compare(mosaicml("a100"), mpt_rows({{mpt_30b, 8, 3, 21, true, 916},
                                      {mpt_13b, 8, 2, 3, false, 2262},
                                      {mpt_7b, 8, 6, 2, false, 4641},
                                      {mpt_3b, 8, 10, 2, false, 10811},
                                      {mpt_1b, 8, 14, 4, false, 20513},
                                      {mpt_760m, 8, 24, 2, false, 32434},
                                      {mpt_350m, 8, 32, 2, false, 58782},
                                      {mpt_125m, 8, 40, 2, false, 142830},
                                      {mpt_125m, 8, 32, 2, false, 141737}}));
  // "bf16, PURE": gradients are also sent in bf16.
  System pure = mosaicml("a100");
  pure.name = "MosaicML, pure bf16";
  pure.engine.gradient_bytes = 2;
  compare(pure, mpt_rows({{mpt_70b, 64, 8, 4, true, 410}, {mpt_70b, 32, 2, 16, true, 373}}));
}

// karpathy/llm.c, scripts/run_gpt2_*.sh ("on 8X A100 80GB SXM ... steps in ~300ms"); 124M on H100:
// KellerJordan/modded-nanogpt, records/track_1_short/2024-10-13_llmc. Sequence 1024, padded
// vocabulary, ZeRO 1.
Row llm_c_row(const char* label, std::int64_t layers, std::int64_t hidden, int micro_batch,
              int micro_batches, double seconds) {
  const Transformer model{.layers = layers,
                          .hidden = hidden,
                          .heads = hidden / 64,
                          .kv_heads = hidden / 64,
                          .ffn = 4 * hidden,
                          .vocabulary = 50304,
                          .context = 1024};
  return {.label = label,
          .model = model,
          .mesh = {.data = 8},
          .micro_batch = micro_batch,
          .micro_batches = micro_batches,
          .unit = Unit::tokens_per_second,
          .published = 1024.0 * micro_batch * micro_batches / seconds};
}

// train_gpt2.cu: bf16 gradients are reduced during backward, parameters gathered without overlap;
// kernels fuse everything between two products.
System llm_c(const char* hardware) {
  SystemTraits traits = with_traffic(fused_traffic);
  traits.gradient_bytes = 2;
  traits.hides_gathers = false;
  return {"llm.c", hardware, traits};
}

TEST(Published, LlmDotC) {
  compare(llm_c("a100"), {llm_c_row("GPT-2 124M", 12, 768, 64, 1, 0.3),
                          llm_c_row("GPT-2 350M", 24, 1024, 64, 1, 0.82),
                          llm_c_row("GPT-2 774M", 36, 1280, 32, 2, 1.7)});
  compare(llm_c("h100"), {llm_c_row("GPT-2 124M", 12, 768, 64, 1, 0.14),
                          llm_c_row("GPT-2 1558M", 48, 1600, 16, 8, 2.8)});
}

}  // namespace
}  // namespace trireme::plan::test
