// SPDX-License-Identifier: Apache-2.0
// Every pipeline schedule at every number of stages and micro-batches, in one job: the ranks are
// split into pipelines, and each runs the next case. The short form has one number of micro-batches
// for each, with warm-up, steady phase and drain in every stage; TRIREME_SWEEP=long runs all up to
// 16.
#include <fmt/format.h>

#include <cstdlib>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"
#include "tests/train/fixed_source.h"

namespace trireme {
namespace {

constexpr int layers = 16;  // with the embedding and the head, two chunks for each of eight stages
constexpr std::int64_t context = 4, vocabulary = 8;
constexpr int steps = 2;

Config config_of(const ScheduleShape& shape) {
  Config config;
  config.run.seed = 1;
  config.parallel.pipeline = shape.stages;
  config.parallel.schedule = shape.kind;
  config.parallel.chunks = shape.chunks;
  config.parallel.data = config.parallel.tensor = 1;
  config.parallel.zero = 0;
  config.train.micro_batch = 1;
  config.train.global_batch = shape.micro_batches;
  config.train.divergence_check_every = 0;
  config.optimizer.learning_rate = 1e-2;
  config.lr_schedule.name = LrDecay::constant;
  return config;
}

std::vector<int> micro_batches_of(ScheduleKind kind, int stages) {
  const char* const form = std::getenv("TRIREME_SWEEP");
  if (form == nullptr || std::string(form) != "long")
    return {kind == ScheduleKind::interleaved ? stages : stages + 1};
  std::vector<int> all;
  for (int m = 1; m <= 16; ++m)
    all.push_back(m);
  return all;
}

std::vector<ScheduleShape> cases_of(int stages) {
  std::vector<ScheduleShape> cases;
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                  ScheduleKind::interleaved, ScheduleKind::zero_bubble}) {
    for (const int m : micro_batches_of(kind, stages)) {
      const ScheduleShape shape{.kind = kind,
                                .stages = stages,
                                .micro_batches = m,
                                .chunks = kind == ScheduleKind::interleaved ? 2 : 1};
      if (!unsupported(shape)) cases.push_back(shape);
    }
  }
  return cases;
}

class PipelineSweepTest : public test::MpiTest {
 protected:
  // Losses and gradient norms; all micro-batches are equal, so both do not depend on their number.
  std::vector<StepReport> train(Communicator& world, const ScheduleShape& shape) {
    auto own = world.split(0, world.rank(), "world");
    ProcessMesh mesh(*own, {.pipeline = shape.stages, .data = 1, .tensor = 1});
    const GptOptions gpt{
        .layers = layers, .hidden = 8, .heads = 1, .context = context, .vocabulary = vocabulary};
    Engine engine(
        {{&device(), [](Device*) {}}, std::move(own), nullptr, std::move(mesh)}, config_of(shape),
        Purpose::train,
        {.model = OwnModel{gpt_chain(gpt),
                           {InputKind::tokens, {TargetKind::tokens, {context}}, context, "tokens"}},
         .batches = [&](Device&, const Config&) {
           return std::make_unique<test::FixedSource>(batch_);
         }});
    engine.begin();
    std::vector<StepReport> reports;
    for (int step = 0; step < steps; ++step)
      reports.push_back(engine.step());
    engine.training().state->engine.settle();
    return reports;
  }

  const test::Owned<std::int32_t> inputs_{device(), {1, context}, {1, 2, 3, 4}};
  const test::Owned<std::int32_t> targets_{device(), {1, context}, {2, 3, 4, 5}};
  const test::Owned<std::int64_t> ids_{device(), {1}, {1}};
  const Batch batch_{inputs_.tensor(), targets_.tensor(), ids_.tensor(), {}};
};

TEST_F(PipelineSweepTest, EveryScheduleTrainsAsOneStageDoes) {
  const auto single = make_single_communicator();
  const auto expected = train(*single, {.stages = 1, .micro_batches = 1});

  for (const int stages : {2, 3, 4, 8}) {
    if (stages > size()) continue;
    const int pipelines = size() / stages, mine = rank() / stages;
    const auto group = world().split(mine, rank(), fmt::format("stages{}", stages));
    if (mine == pipelines) continue;  // ranks that are left over
    const auto cases = cases_of(stages);
    if (rank() == 0) fmt::print("{} stages: {} cases\n", stages, cases.size());
    for (std::size_t i = static_cast<std::size_t>(mine); i < cases.size();
         i += static_cast<std::size_t>(pipelines)) {
      SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", name_of(cases[i].kind), stages,
                               cases[i].micro_batches));
      const auto reports = train(*group, cases[i]);
      for (std::size_t step = 0; step < reports.size(); ++step) {
        EXPECT_NEAR(reports[step].loss, expected[step].loss, 1e-5) << "step " << step;
        EXPECT_NEAR(reports[step].grad_norm, expected[step].grad_norm, 1e-4) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace trireme
