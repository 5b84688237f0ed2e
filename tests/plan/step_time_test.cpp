// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/step_time.h"

#include <gtest/gtest.h>

#include <array>

#include "runtime/base/error.h"
#include "runtime/parallel/schedule_timeline.h"
#include "runtime/plan/comm_cost.h"
#include "tests/plan/plans.h"

namespace trireme::plan::test {
namespace {

constexpr Transformer small{.layers = 6,
                            .hidden = 512,
                            .heads = 8,
                            .kv_heads = 8,
                            .ffn = 2048,
                            .vocabulary = 1024,
                            .context = 256};

double sum_of_parts(const StepEstimate& e) {
  return e.forward + e.backward + e.recompute + e.tensor_exposed + e.expert_exposed +
         e.context_exposed + e.pipeline_exposed + e.bubble + e.data_exposed + e.gather_exposed +
         e.optimizer + e.data_wait + e.straggler;
}

StepEstimate estimate(const PlanShape& shape, const char* hardware = "h100") {
  return estimate_step(plan_input(shape), hardware_file(hardware));
}

// Only blocks, so that stages are equal.
StepInput equal_stages(const ScheduleShape& schedule) {
  PlanShape shape{.model = small,
                  .mesh = {.pipeline = schedule.stages},
                  .micro_batches = schedule.micro_batches,
                  .schedule = schedule.kind,
                  .chunks = schedule.chunks};
  StepInput input = plan_input(shape);
  const std::vector<LayerSummary> blocks(static_cast<std::size_t>(virtual_stages(schedule)),
                                         input.layers[1]);
  input.work.assign(blocks.size(), input.work[1]);
  input.layers = blocks;
  input.stages = plan_stages(input.layers, schedule);
  return input;
}

TEST(StepTime, OnOneRankHasNoCommunicationAndNoBubble) {
  for (const char* const hardware : {"h100", "cpu_example"}) {
    const StepEstimate e = estimate({.model = small, .micro_batches = 4}, hardware);

    EXPECT_EQ(e.tensor_exposed, 0);
    EXPECT_EQ(e.pipeline_exposed, 0);
    EXPECT_EQ(e.data_exposed, 0);
    EXPECT_EQ(e.gather_exposed, 0);
    EXPECT_EQ(e.straggler, 0);
    EXPECT_NEAR(e.bubble, 0, 1e-12);
    EXPECT_EQ(e.volumes.data + e.volumes.tensor + e.volumes.pipeline, 0);
    EXPECT_GT(e.optimizer, 0);
  }
}

TEST(StepTime, PartsAddUpToTheTotal) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool sequence : {false, true}) {
      const StepEstimate e = estimate({.model = small,
                                       .mesh = {.pipeline = 2, .data = 4, .tensor = 2},
                                       .micro_batches = 4,
                                       .zero = zero,
                                       .sequence = sequence,
                                       .recompute = Recompute::full});
      EXPECT_NEAR(sum_of_parts(e), e.total, 1e-9 * e.total);
      EXPECT_GT(e.recompute, 0);
      EXPECT_GT(e.tensor_exposed, 0);
      EXPECT_GT(e.bubble, 0);
    }
  }
}

TEST(StepTime, BubbleOfEqualStagesIsTheSchedules) {
  Hardware hardware = hardware_file("h100");
  hardware.links.inside = hardware.links.between = {.latency = 0, .bandwidth = 1e18};
  hardware.links.overlap = 1;
  hardware.device.memory_bandwidth = 1e18;
  hardware.device.launch_seconds = 0;
  for (const ScheduleShape& schedule : {ScheduleShape{ScheduleKind::one_f_one_b, 4, 8, 1},
                                        ScheduleShape{ScheduleKind::gpipe, 3, 6, 1},
                                        ScheduleShape{ScheduleKind::interleaved, 4, 8, 2},
                                        ScheduleShape{ScheduleKind::zero_bubble, 4, 8, 1}}) {
    StepInput input = equal_stages(schedule);
    // The first and the last layer are no blocks, which has no effect without recomputation.
    const StepEstimate e = estimate_step(input, hardware);
    const double compute = e.forward + e.backward;

    const LayerSummary& block = input.layers[1];
    StepInput alone = input;
    alone.mesh = {};
    alone.schedule = {.stages = 1, .micro_batches = 1};
    alone.layers = {block};
    alone.work.resize(1);
    alone.stages = plan_stages(alone.layers, alone.schedule);
    const StepEstimate one = estimate_step(alone, hardware);
    // Products alone: both halves of the backward are alike, but for attention.
    const double weight = schedule.kind == ScheduleKind::zero_bubble ? one.backward / 2 : 0;
    const Timeline expected =
        simulate(schedule, uniform_costs(schedule, one.forward, one.backward - weight, weight));
    const double tolerance = schedule.kind == ScheduleKind::zero_bubble ? 0.2 : 1e-6;

    EXPECT_NEAR(e.bubble / (e.bubble + compute), expected.bubble, tolerance * expected.bubble)
        << name_of(schedule.kind);
  }
}

TEST(StepTime, VolumesFollowTheZeroStage) {
  const auto volume = [](int zero, int micro_batches) {
    return estimate(
               {.model = small, .mesh = {.data = 4}, .micro_batches = micro_batches, .zero = zero})
        .volumes.data;
  };
  const StepInput input = plan_input({.model = small});
  double elements = 0;
  for (const LayerSummary& layer : input.layers) {
    for (const ParamSpec& spec : layer.params)
      elements += static_cast<double>(spec.shape.count());
  }
  const double once = 4 * elements * 3 / 4;  // fp32, (D-1)/D

  // Padding adds less than 1 %.
  EXPECT_NEAR(volume(0, 3), 2 * once, 0.01 * once);
  EXPECT_NEAR(volume(1, 3), 2 * once, 0.01 * once);
  EXPECT_NEAR(volume(2, 3), (3 + 1) * once, 0.02 * once);
  EXPECT_NEAR(volume(3, 3), (3 + 2 * 3) * once, 0.05 * once);
}

TEST(StepTime, TensorParallelSendsFourSumsPerBlock) {
  const StepInput two = plan_input({.model = small, .mesh = {.tensor = 2}});
  const StepEstimate e = estimate_step(two, hardware_file("h100"));

  // Per block four all-reduces of (T, C) in fp32, one each for embedding and head.
  const double sums = 4.0 * static_cast<double>(small.layers) + 2;
  EXPECT_DOUBLE_EQ(e.volumes.tensor, sums * 4 * static_cast<double>(small.context * small.hidden));
}

TEST(StepTime, MoreBandwidthIsNeverSlower) {
  const PlanShape shape{.model = small,
                        .mesh = {.pipeline = 2, .data = 4, .tensor = 2},
                        .micro_batches = 4,
                        .zero = 1};
  const StepInput input = plan_input(shape);
  const Hardware base = hardware_file("h100");
  const double before = estimate_step(input, base).total;
  for (int part = 0; part < 4; ++part) {
    Hardware faster = base;
    if (part == 0) faster.links.inside.bandwidth *= 2;
    if (part == 1) faster.links.between.bandwidth *= 2;
    if (part == 2) faster.device.memory_bandwidth *= 2;
    if (part == 3) faster.links.inside.latency /= 2;
    EXPECT_LE(estimate_step(input, faster).total, before) << part;
  }
}

TEST(StepTime, OverlapHidesReductionsBehindBackward) {
  const PlanShape shape{.model = small, .mesh = {.data = 8}, .micro_batch = 8, .micro_batches = 2};
  StepInput input = plan_input(shape);
  const Hardware hardware = hardware_file("h100");
  const double overlapped = estimate_step(input, hardware).data_exposed;
  input.overlapped_reducer = false;
  const double inline_after = estimate_step(input, hardware).data_exposed;

  EXPECT_GT(overlapped, 0);
  EXPECT_LT(overlapped, 0.7 * inline_after);
}

TEST(StepTime, RanksThatShareCoresTakeTurns) {
  Hardware host = hardware_file("cpu_example");  // two cores
  host.node.crowded_slowdown = 1;
  const auto computed = [&](int ranks) {
    const StepEstimate e =
        estimate_step(plan_input({.model = small, .mesh = {.data = ranks}}), host);
    return e.forward + e.backward;
  };

  EXPECT_DOUBLE_EQ(computed(2), computed(1));
  EXPECT_DOUBLE_EQ(computed(4), 2 * computed(1));
}

TEST(StepTime, StagesThatShareCoresTakeTurns) {
  Hardware host = hardware_file("cpu_example");  // two cores
  const auto total = [&](int stages) {
    return estimate_step(
               plan_input({.model = small, .mesh = {.pipeline = stages}, .micro_batches = 16}),
               host)
        .total;
  };
  host.node.scheduling_delay = 0;
  const double at_once = total(4);
  host.node.scheduling_delay = 1e-3;

  // Two stages of two cores have a bubble that four hardly have.
  EXPECT_LT(at_once, 1.1 * total(2));
  EXPECT_GT(total(4), at_once);
}

TEST(StepTime, RecomputationCostsItsForward) {
  const StepEstimate none = estimate({.model = small});
  const StepEstimate selective = estimate({.model = small, .recompute = Recompute::selective});
  const StepEstimate full = estimate({.model = small, .recompute = Recompute::full});

  EXPECT_EQ(none.recompute, 0);
  EXPECT_GT(selective.recompute, 0);
  EXPECT_LT(selective.recompute, full.recompute);
  EXPECT_LT(full.recompute, full.forward);
  EXPECT_DOUBLE_EQ(full.forward, none.forward);
}

TEST(StepTime, FullRecomputationRepeatsTheMessagesOfForward) {
  const auto sent = [](Recompute recompute, bool sequence) {
    return estimate({.model = small,
                     .mesh = {.tensor = 2},
                     .sequence = sequence,
                     .recompute = recompute})
        .volumes.tensor;
  };
  // Two of two ranks' all-reduces of fp32 rows in each block.
  const double sums = 2.0 * static_cast<double>(small.layers * small.context * small.hidden) * 4;

  EXPECT_DOUBLE_EQ(sent(Recompute::full, false) - sent(Recompute::none, false), sums);
  // Half of each as a reduce-scatter, the other half as a gather.
  EXPECT_DOUBLE_EQ(sent(Recompute::full, true) - sent(Recompute::none, true), sums);
  EXPECT_DOUBLE_EQ(sent(Recompute::selective, true), sent(Recompute::none, true));
}

constexpr ContextMessages of_keys{.gathered = 3e6, .reduced = 12e6, .groups = 1};

// The same model, with sequences in `blocks` blocks on `ranks` of the data ranks.
StepInput with_context(const PlanShape& shape, int ranks, int blocks) {
  StepInput input = plan_input(shape);
  input.mesh.context = ranks;
  input.build.context = {.ranks = ranks, .blocks = blocks, .positions = 256};
  for (LayerSummary& layer : input.layers) {
    layer.held /= blocks;
    layer.handed_on /= blocks;
    if (layer.name.starts_with("blocks")) layer.traffic.context = of_keys;
  }
  for (LayerWork& layer : input.work) {
    for (auto* const part : {&layer.forward, &layer.backward_input, &layer.backward_weight}) {
      const auto block = scaled(*part, 1.0 / blocks);
      part->clear();
      for (int i = 0; i < input.build.context.local(); ++i)
        part->insert(part->end(), block.begin(), block.end());
    }
  }
  return input;
}

TEST(StepTime, RanksOfASequenceShareItsWorkAndSendKeys) {
  const Hardware h100 = hardware_file("h100");
  const PlanShape shape{.model = small, .mesh = {.data = 4}, .micro_batch = 16, .micro_batches = 3};
  const StepInput whole = plan_input(shape), cut = with_context(shape, 2, 2);
  const GroupSpan group = span_of(MeshAxis::context, cut.mesh, h100.links);
  const double passes = 3 * 6;

  const StepEstimate before = estimate_step(whole, h100), after = estimate_step(cut, h100);

  EXPECT_EQ(after.model_flops, before.model_flops / 2) << "half as many samples";
  EXPECT_NEAR(after.samples_per_second * after.total, 3 * 2 * 16, 1e-9);
  EXPECT_LT(after.forward, 0.75 * before.forward);
  EXPECT_NEAR(
      after.context_exposed,
      passes * (2 * seconds_of(Collective::all_gather, of_keys.gathered, group, h100.links) +
                seconds_of(Collective::reduce_scatter, of_keys.reduced, group, h100.links)),
      1e-12);
  EXPECT_NEAR(after.volumes.context, passes * (2 * 3e6 + 12e6) / 2, 1);
  EXPECT_NEAR(sum_of_parts(after), after.total, 1e-9 * after.total);
  EXPECT_EQ(before.context_exposed + before.volumes.context, 0);
}

TEST(StepTime, KeysOfLaterGroupsComeDuringAttention) {
  Hardware h100 = hardware_file("h100");
  h100.links.inside.latency = 0;
  h100.links.overlap = 1;
  const PlanShape shape{.model = small, .mesh = {.data = 2}, .micro_batch = 16};
  StepInput input = with_context(shape, 2, 2);
  const auto exposed = [&](double groups, Recompute recompute) {
    input.build.recompute = recompute;
    for (LayerSummary& layer : input.layers)
      if (layer.traffic.context.gathered > 0) layer.traffic.context.groups = groups;
    return estimate_step(input, h100).context_exposed;
  };
  const GroupSpan group = span_of(MeshAxis::context, input.mesh, h100.links);
  const double gather = seconds_of(Collective::all_gather, of_keys.gathered, group, h100.links),
               reduce = seconds_of(Collective::reduce_scatter, of_keys.reduced, group, h100.links);

  EXPECT_NEAR(exposed(1, Recompute::none), 6 * (2 * gather + reduce), 1e-12);
  EXPECT_NEAR(exposed(1, Recompute::selective), 6 * (3 * gather + reduce), 1e-12);
  EXPECT_NEAR(exposed(1, Recompute::full), 6 * (3 * gather + reduce), 1e-12);
  EXPECT_LT(exposed(4, Recompute::none), exposed(1, Recompute::none));
  EXPECT_GT(exposed(4, Recompute::none), 6 * (2 * gather / 4 + reduce) - 1e-12)
      << "the first group has nothing beside it";
}

TEST(StepTime, RowsThatBecomeHeadsGoTwiceAsFarInBackward) {
  const Hardware h100 = hardware_file("h100");
  StepInput input = with_context({.model = small, .mesh = {.data = 2}}, 2, 2);
  const auto sent = [&](Recompute recompute) {
    input.build.recompute = recompute;
    for (LayerSummary& layer : input.layers)
      if (layer.name.starts_with("blocks"))
        layer.traffic.context = {.exchanged = 8e6, .returned = 2e6};
    return estimate_step(input, h100).volumes.context / 6;
  };

  EXPECT_NEAR(sent(Recompute::none), 3 * (8e6 + 2e6) / 2, 1);
  EXPECT_NEAR(sent(Recompute::selective), (3 * (8e6 + 2e6) + 2e6) / 2, 1);
  EXPECT_NEAR(sent(Recompute::full), 4 * (8e6 + 2e6) / 2, 1);
}

TEST(StepTime, MoreBlocksAreTheSameFlopsInMoreLaunches) {
  const Hardware h100 = hardware_file("h100");
  const PlanShape shape{.model = small, .mesh = {.pipeline = 2, .data = 2}, .micro_batches = 2};
  const StepInput one = with_context(shape, 1, 1), four = with_context(shape, 1, 4);

  const StepEstimate before = estimate_step(one, h100), after = estimate_step(four, h100);

  EXPECT_EQ(after.model_flops, before.model_flops);
  EXPECT_EQ(after.volumes.pipeline, before.volumes.pipeline);
  EXPECT_GT(after.forward, before.forward);
  EXPECT_EQ(after.context_exposed, 0);
}

TEST(StepTime, UtilizationCountsThreeForwards) {
  const StepInput input = plan_input({.model = small, .mesh = {.data = 2}, .micro_batches = 3});
  const Hardware hardware = hardware_file("h100");
  const StepEstimate e = estimate_step(input, hardware);
  double forward = 0;
  for (const LayerSummary& layer : input.layers)
    forward += layer.forward_flops;

  EXPECT_DOUBLE_EQ(e.model_flops, 3 * forward * 3 * 2);
  EXPECT_DOUBLE_EQ(e.mfu, e.model_flops / e.total / 2 / hardware.flops(Precision::fp32));
  EXPECT_DOUBLE_EQ(e.samples_per_second, 6 / e.total);
  EXPECT_DOUBLE_EQ(e.items_per_second, 6 * 256 / e.total);
}

TEST(StepTime, RoundedSumsHalveTensorParallelMessages) {
  StepInput input =
      plan_input({.model = small, .mesh = {.tensor = 2}, .precision = Precision::bf16});
  const auto sent = [&] { return estimate_step(input, hardware_file("h100")).volumes.tensor; };
  const double exact = sent();
  input.build.sums.rounded = true;

  EXPECT_LT(sent(), 0.6 * exact);
}

TEST(StepTime, ChunksHideAllButTheLastPartOfSumsInBothDirections) {
  StepInput input = plan_input({.model = small, .mesh = {.tensor = 2}});
  const auto with = [&](int chunks, double latency) {
    Hardware hardware = hardware_file("h100");
    hardware.links.overlap = 1;
    hardware.links.inside.latency = latency;
    input.build.sums.chunks = chunks;
    return estimate_step(input, hardware);
  };
  std::array<double, 2> hidden{};
  for (const bool apart : {false, true}) {
    input.build.split_backward = apart;
    const StepEstimate whole = with(1, 0), four = with(4, 0);

    hidden.at(apart ? 1 : 0) = whole.tensor_exposed - four.tensor_exposed;
    EXPECT_GT(hidden.at(apart ? 1 : 0), 0);
    EXPECT_GT(four.tensor_exposed, whole.tensor_exposed / 8);
    EXPECT_DOUBLE_EQ(four.volumes.tensor, whole.volumes.tensor);
    // Each part is a message.
    EXPECT_GT(with(64, 1e-3).tensor_exposed, with(1, 1e-3).tensor_exposed);
  }
  // Sums of input gradients, beside which a split backward has no weight gradients.
  EXPECT_GT(hidden[1], 1.5 * hidden[0]);
}

TEST(StepTime, MatricesAreGatheredInTheComputeDtype) {
  for (const int zero : {1, 2, 3}) {
    StepInput input = plan_input(
        {.model = small, .mesh = {.data = 4}, .zero = zero, .precision = Precision::bf16});
    const auto sent = [&] { return estimate_step(input, hardware_file("h100")).volumes.data; };
    const double rounded = sent();
    input.engine.rounded_gathers = false;
    const double whole = sent();

    // A gather of 4 bytes, in stage 3 two, of which 2 are saved, and a reduction of 4.
    EXPECT_NEAR(rounded / whole, zero == 3 ? 8.0 / 12.0 : 6.0 / 8.0, 0.02) << "ZeRO " << zero;
  }
}

// A domain of the H100 file has 8 ranks.
TEST(StepTime, ZeroGroupsOfADomainSendTheOthersASliceOfTheGradientsOnceAStep) {
  for (const int zero : {1, 2, 3}) {
    for (const int micro_batches : {1, 4}) {
      const auto with = [&](int shard) {
        return estimate({.model = small,
                         .mesh = {.data = 32, .shard = shard},
                         .micro_batches = micro_batches,
                         .zero = zero});
      };
      const StepEstimate one = with(32), two = with(8);

      // An all-reduce of 1/8 over 4 domains; bytes of f32.
      const double parameters = two.stages.front().parameters;
      EXPECT_NEAR(two.volumes.data_out, 2 * 3.0 / 4 * 4 * parameters / 8, 0.01 * parameters);
      const double passes = zero == 1 ? 2 : zero == 2 ? micro_batches + 1 : 3 * micro_batches;
      EXPECT_NEAR(one.volumes.data_out, passes * 3.0 / 4 * 4 * parameters / 8, 0.02 * parameters);
      EXPECT_LE(two.gather_exposed, one.gather_exposed);
    }
  }
}

TEST(StepTime, GradientsIn16BitsHalveReductions) {
  for (const int zero : {0, 2}) {
    StepInput input = plan_input({.model = small, .mesh = {.data = 4}, .zero = zero});
    const auto sent = [&] { return estimate_step(input, hardware_file("h100")).volumes.data; };
    const double whole = sent();
    input.engine.gradient_bytes = 2;
    const double half = sent();

    // ZeRO 2 gathers parameters in 4 bytes either way.
    EXPECT_NEAR(half / whole, zero == 0 ? 1.0 / 2 : 6.0 / 8, 0.01);
  }
}

// Between domains each of a domain's 8 ranks sends a slice to every owner, while a ring sends one
// sum.
TEST(StepTime, OwnersThatSumGradientsIn16BitsAreFasterThanRingsWithinADomainOnly) {
  const auto exposed = [](int ranks, bool in_16_bits) {
    StepInput input = plan_input({.model = small, .mesh = {.data = ranks}});
    input.overlapped_reducer = false;
    input.engine.gradient_bytes = in_16_bits ? 2 : 4;
    input.engine.owners_sum_gradients = in_16_bits;
    Hardware hardware = hardware_file("h100");
    hardware.links.inside.latency = hardware.links.between.latency = 0;
    hardware.device.launch_seconds = 0;
    return estimate_step(input, hardware).data_exposed;
  };

  EXPECT_LT(exposed(8, true), 0.9 * exposed(8, false));
  EXPECT_GT(exposed(16, true), 1.5 * exposed(16, false));
}

TEST(StepTime, WaitsForStorageThatIsTooSlow) {
  StepInput input = plan_input({.model = small, .micro_batches = 2});
  input.sample_bytes = 1e6;
  Hardware hardware = hardware_file("h100");
  EXPECT_EQ(estimate_step(input, hardware).data_wait, 0);
  hardware.storage_bandwidth = 1e6;
  const StepEstimate e = estimate_step(input, hardware);

  EXPECT_DOUBLE_EQ(e.total, 2);  // two samples of a second each
  EXPECT_GT(e.data_wait, 1.9);
}

TEST(StepTime, RefusesAPrecisionThatTheDeviceLacks) {
  EXPECT_THROW(estimate({.model = small, .precision = Precision::fp8}, "a100"), Error);
  EXPECT_GT(estimate({.model = small, .precision = Precision::fp8}).total, 0);
}

}  // namespace
}  // namespace trireme::plan::test
