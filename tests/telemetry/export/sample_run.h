// SPDX-License-Identifier: Apache-2.0
// A sample run's reports, for tests of the files made from them.
#pragma once

#include <chrono>
#include <string>

#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/snapshots.h"

namespace trireme::test {

// 2026-11-22 12:01:02.345 UTC.
inline constexpr std::chrono::system_clock::time_point noon{
    std::chrono::milliseconds(1795348862345)};

inline ExportFacts sample_facts(const std::string& directory) {
  return {.directory = directory,
          .name = "runs/sample",
          .config = "run:\n  directory: runs/sample\n",
          .keys = {{"run.directory", "runs/sample"}, {"train.steps", "1000"}},
          .command_line = "trireme train a.yaml",
          .start = noon};
}

// Every metric of the table has a different value.
inline StepMetrics sample_step(std::int64_t step = 7) {
  return {.step = step,
          .loss = 1.5,
          .learning_rate = 1e-3,
          .grad_norm = 0.75,
          .items = 4096,
          .targets = 4000,
          .flops = 2.5e11,
          .peak_flops = 1e13,
          .times = {{TimePart::step, 125},
                    {TimePart::forward, 40},
                    {TimePart::backward, 80},
                    {TimePart::optimizer, 2},
                    {TimePart::data_wait, 0.25},
                    {TimePart::exposed_comm, 1.25},
                    {TimePart::straggler, 2.5},
                    {TimePart::bubble, 3.25},
                    {TimePart::other, 0.5},
                    {TimePart::core_wait, 1},
                    {TimePart::reduce, 4.75},
                    {TimePart::expert_comm, 0.75},
                    {TimePart::expert_wait, 0.375}},
          .loss_scale = 1024,
          .skipped_steps = 3,
          .non_finite_steps = 4,
          .noise_scale = 33,
          .noise_trace = 34,
          .noise_square = 35,
          .spikes = 5,
          .joules = 12.5,
          .gpus = {{.utilization = 0.9,
                    .memory_bytes = 2e10,
                    .sm_mhz = 1980,
                    .watts = 650,
                    .celsius = 70,
                    .known = true}},
          .expert_loads = {{.layer = "blocks.1",
                            .max_over_mean = 1.75,
                            .dead = 6,
                            .entropy = 0.875,
                            .tokens = 8192,
                            .experts = 16}},
          .expert_traffic = ExpertTraffic{.passes = 36,
                                          .in_rounds = 9,
                                          .off_rank = 0.6875,
                                          .off_node = 0.3125,
                                          .rank_load = 1.375},
          .epoch = 0.125,
          .items_seen = 4096 * step,
          .time = noon + std::chrono::milliseconds(125) * step};
}

// A start that ends with an error behind five steps.
template <typename Made>
void failed_start(const ExportFacts& facts) {
  Made run(facts);
  for (std::int64_t step = 1; step <= 5; ++step)
    run.step(sample_step(step));
  run.finish(RunEnd::failed);
}

inline EvaluationMetrics sample_evaluation(std::int64_t step = 7) {
  return {.step = step,
          .validation_loss = 1.25,
          .quality = {.accuracy = 0.5,
                      .f1 = 0.25,
                      .f1_micro = 0.75,
                      .auc = 0.875,
                      .r2 = 0.125,
                      .mae = 0.75,
                      .vrmse = 0.875,
                      .mean_iou = 0.375,
                      .mean_dice = 0.625},
          .sources = {{"books", 1.125, {.accuracy = 0.625}}, {"code", 1.375, {}}},
          .evaluation_ms = 250,
          .time = noon + std::chrono::milliseconds(125) * step};
}

inline StepHistograms sample_histograms(std::int64_t step = 7) {
  return {.step = step,
          .tensors = {{"weights/block.weight", {-2, -1, 3, -1, 1, 4, 1, 2, 5}},
                      {"gradients/block.weight", {0.25, 0.5, 12}}},
          .time = noon + std::chrono::milliseconds(125) * step};
}

// A text that ends within a letter, and a picture of 2 x 3 pixels.
inline ModelSamples sample_samples(std::int64_t step = 7) {
  return {.step = step,
          .texts = {{"In the beginning", " was\nthe \xc3"}},
          .pictures = {{.height = 2,
                        .width = 3,
                        .channels = 1,
                        .pixels = std::vector<std::byte>(6, std::byte{128}),
                        .label = "shoe",
                        .predicted = "shirt"}},
          .time = noon + std::chrono::milliseconds(125) * step};
}

}  // namespace trireme::test
