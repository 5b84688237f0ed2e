// SPDX-License-Identifier: Apache-2.0
// Traced steps of an engine: nested spans, matching ends of messages and group calls on one clock,
// unchanged bits and no allocation.
#include "runtime/train/trace/step_tracer.h"

#include <atomic>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "launch/engine/engine.h"
#include "models/gpt/gpt.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/telemetry/trace/trace_json.h"
#include "tests/support/cpu_fixture.h"
#include "tests/support/mpi_test.h"
#include "tests/train/fixed_source.h"

namespace {

std::atomic<std::int64_t> news{0};

}  // namespace

// As in step_test.cpp.
extern "C" {
void* __real__Znwm(std::size_t size);
void* __wrap__Znwm(std::size_t size) {
  ++news;
  return __real__Znwm(size);
}
}

namespace trireme {
namespace {

using nlohmann::json;

constexpr int micro_batches = 4;
constexpr std::int64_t rows = 2, context = 16, vocabulary = 50;

std::vector<std::int32_t> tokens(unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(rows * context));
  for (auto& value : values)
    value = static_cast<std::int32_t>(engine() % vocabulary);
  return values;
}

struct Layout {
  MeshShape mesh{};
  int zero = 0;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
};

Config config_of(const Layout& layout) {
  Config config;
  config.run.seed = 1;
  config.precision = Precision::fp32;
  config.parallel.data = layout.mesh.data;
  config.parallel.tensor = layout.mesh.tensor;
  config.parallel.tensor_blocks = layout.mesh.tensor;
  config.parallel.pipeline = layout.mesh.pipeline;
  config.parallel.zero = layout.zero;
  config.parallel.schedule = layout.schedule;
  config.parallel.chunks = layout.chunks;
  config.parallel.bucket_megabytes = 4.0 / 1024;
  config.train.micro_batch = rows;
  config.train.global_batch = rows * micro_batches * layout.mesh.data;
  config.train.divergence_check_every = 0;
  config.lr_schedule.name = LrDecay::constant;
  return config;
}

RankResources resources_of(Device& device, Communicator& world, const MeshShape& shape) {
  auto own = world.split(0, world.rank(), "world");
  ProcessMesh mesh(*own, shape);
  return {{&device, [](Device*) {}}, std::move(own), nullptr, std::move(mesh)};
}

class TraceTest : public test::MpiTest {
 protected:
  static constexpr std::int64_t steps = 5, first = 4, last = 5;  // from 1

  ~TraceTest() override { TraceClock::put_ahead(0); }

  struct Run {
    std::vector<double> losses;
    StepTracer::Taken taken{};
    std::vector<std::int64_t> news_of_step{};
    std::vector<std::uint64_t> buffers_of_step{};
  };

  Run run(const Layout& layout, bool traced) {
    const OwnModel model{
        gpt_chain(
            {.layers = 4, .hidden = 32, .heads = 2, .context = context, .vocabulary = vocabulary}),
        {InputKind::tokens, {TargetKind::tokens, {context}}, context, "tokens"}};
    Engine engine(resources_of(device(), world(), mesh_shape(config_of(layout).parallel)),
                  config_of(layout), Purpose::train,
                  {.model = model, .batches = [&](Device&, const Config&) {
                     return std::make_unique<test::FixedSource>(batch_);
                   }});
    engine.begin();
    Session& session = engine.session();
    StepEngine& stepper = engine.training().state->engine;
    StepTracer tracer(device(), session.streams, session.mesh,
                      {.first = first, .last = last, .directory = {}});
    Run run;
    run.losses.reserve(steps);
    run.news_of_step.reserve(steps);
    run.buffers_of_step.reserve(steps);
    for (std::int64_t step = 0; step < steps; ++step) {
      if (traced) tracer.begin_step(step);
      const std::int64_t news_before = news;
      const auto buffers_before = device().memory_use(MemoryKind::device).allocations;
      stepper.run(step, *engine.training().batches);
      run.losses.push_back(stepper.read(step).loss);
      session.streams.comm->synchronize();
      stepper.runner().synchronize();
      run.buffers_of_step.push_back(device().memory_use(MemoryKind::device).allocations -
                                    buffers_before);
      run.news_of_step.push_back(news - news_before);
      if (traced) tracer.end_step(step);
    }
    stepper.settle();
    if (traced) run.taken = tracer.take();
    return run;
  }

  [[nodiscard]] std::vector<Layout> layouts() const {
    std::vector<Layout> all;
    for (const int zero : {1, 3})
      all.push_back({.mesh = {.data = size()}, .zero = zero});
    if (size() == 1) return all;
    all.push_back({.mesh = {.data = size() / 2, .tensor = 2}});
    all.push_back({.mesh = {.pipeline = 2, .data = size() / 2},
                   .zero = 1,
                   .schedule = ScheduleKind::zero_bubble});
    all.push_back({.mesh = {.pipeline = 2, .tensor = size() / 2},
                   .schedule = ScheduleKind::interleaved,
                   .chunks = 2});
    return all;
  }

  static void expect_same_bits_and_no_allocations(const Run& plain, const Run& traced) {
    for (std::size_t step = 0; step < plain.losses.size(); ++step)
      EXPECT_EQ(std::bit_cast<std::uint64_t>(plain.losses[step]),
                std::bit_cast<std::uint64_t>(traced.losses[step]));
    ASSERT_GT(news, 0) << "nothing is counted";
    // The step before the first traced one too, in which spans are counted.
    for (std::int64_t step = first - 1; step <= last; ++step) {
      const auto at = static_cast<std::size_t>(step - 1);
      EXPECT_EQ(traced.news_of_step[at], plain.news_of_step[at]) << "step " << step;
      EXPECT_EQ(traced.buffers_of_step[at], 0U) << "step " << step;
    }
    EXPECT_EQ(plain.news_of_step[last - 1], 0);
  }

  const test::Owned<std::int32_t> inputs_{device(), {rows, context}, tokens(1)};
  const test::Owned<std::int32_t> targets_{device(), {rows, context}, tokens(2)};
  const test::Owned<std::int64_t> ids_{device(), {rows}, {1, 2}};
  const Batch batch_{inputs_.tensor(), targets_.tensor(), ids_.tensor(), {}};
};

void expect_nested_in_steps(const RankTrace& trace) {
  std::vector<const RankSpan*> steps;
  for (const RankSpan& span : trace.spans) {
    if (span.kind == SpanKind::step) steps.push_back(&span);
  }
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_LE(steps[0]->end, steps[1]->begin);
  std::vector<const RankSpan*> open;
  std::map<SpanKind, int> seen;
  for (const RankSpan& span : trace.spans) {
    ASSERT_LE(span.begin, span.end) << span.name;
    if (trace.tracks[static_cast<std::size_t>(span.track)].kind != TrackKind::compute) continue;
    ++seen[span.kind];
    if (span.kind == SpanKind::step) continue;
    const RankSpan& step = *steps[static_cast<std::size_t>(span.step - steps[0]->step)];
    EXPECT_GE(span.begin, step.begin) << span.name;
    EXPECT_LE(span.end, step.end) << span.name;
    // Spans are sorted by their starts: an open span has ended or encloses this one.
    while (!open.empty() && open.back()->end <= span.begin)
      open.pop_back();
    EXPECT_TRUE(open.empty() || span.end <= open.back()->end) << span.name;
    open.push_back(&span);
  }
  EXPECT_GT(seen[SpanKind::pass], 0);
  EXPECT_GT(seen[SpanKind::layer], seen[SpanKind::pass]);
}

// The parts of all ranks as a reader of the file has them.
std::vector<json> events_of(const std::vector<std::string>& parts, const TraceFacts& facts) {
  std::string text = perfetto_begin(facts);
  for (const std::string& part : parts)
    text += part;
  text += perfetto_end();
  return json::parse(text).at("traceEvents").get<std::vector<json>>();
}

struct Calls {
  // group and number -> when they began and ended, by rank
  std::map<std::string, std::vector<std::pair<double, double>>> collectives;
  // group, ranks and number
  std::map<std::string, double> sent, received;  // start of the send, end of the receive
  std::map<std::string, int> group_sizes;
};

Calls calls_of(const std::vector<json>& events) {
  Calls calls;
  for (const json& event : events) {
    if (event.at("ph") != "X" || !event.at("args").contains("group")) continue;
    const json& args = event.at("args");
    const double begin = event.at("ts").get<double>(), end = begin + event.at("dur").get<double>();
    const std::string call = args.at("group").get<std::string>() + " " + args.at("number").dump();
    const int rank = event.at("pid").get<int>();
    if (args.at("kind") == "collective") {
      // In a broadcast all wait for the root only.
      const bool waited_for = args.value("root", rank) == rank;
      calls.collectives[call].emplace_back(waited_for ? begin : 0, end);
      calls.group_sizes[call] = args.at("group_size").get<int>();
    } else if (args.at("kind") == "send") {
      calls.sent[fmt::format("{} {} {}", call, rank, args.at("peer").get<int>())] = begin;
    } else {
      calls.received[fmt::format("{} {} {}", call, args.at("peer").get<int>(), rank)] = end;
    }
  }
  return calls;
}

void expect_calls_find_each_other(const Calls& calls, double error_us) {
  for (const auto& [call, times] : calls.collectives) {
    EXPECT_EQ(times.size(), static_cast<std::size_t>(calls.group_sizes.at(call))) << call;
    double last_begin = 0, first_end = 1e300;
    for (const auto& [begin, end] : times) {
      last_begin = std::max(last_begin, begin);
      first_end = std::min(first_end, end);
    }
    // No rank returns before all have arrived.
    EXPECT_LE(last_begin, first_end + 2 * error_us) << call;
  }
  ASSERT_EQ(calls.sent.size(), calls.received.size());
  for (const auto& [message, begin] : calls.sent) {
    ASSERT_TRUE(calls.received.contains(message)) << message;
    EXPECT_LE(begin, calls.received.at(message) + 2 * error_us) << message;
  }
}

void expect_flows_in_pairs(const std::vector<json>& events) {
  std::map<std::uint64_t, std::string> flows;
  for (const json& event : events) {
    if (event.at("ph") == "s" || event.at("ph") == "f")
      flows[event.at("id").get<std::uint64_t>()] += event.at("ph").get<std::string>();
  }
  for (const auto& [id, ends] : flows)
    EXPECT_TRUE(ends == "sf" || ends == "fs") << id << ": " << ends;
}

TEST_F(TraceTest, SpansNestAndCallsFindEachOtherWithTheSameBitsAndNoAllocation) {
  for (const Layout& layout : layouts()) {
    SCOPED_TRACE(fmt::format("pipeline {} x data {} x tensor {}, ZeRO {}, {}", layout.mesh.pipeline,
                             layout.mesh.data, layout.mesh.tensor, layout.zero,
                             name_of(layout.schedule)));
    // The last rank's clock is 2 s behind: unadjusted, its spans would be out of order.
    TraceClock::put_ahead(rank() > 0 && rank() + 1 == size() ? -2'000'000'000 : 0);

    const Run plain = run(layout, false), traced = run(layout, true);

    expect_same_bits_and_no_allocations(plain, traced);
    expect_nested_in_steps(traced.taken.trace);
    EXPECT_EQ(traced.taken.trace.lost, 0);
    double error_us = 0;
    for (const TraceClockFacts& clock : traced.taken.facts.clocks)
      error_us = std::max(error_us, clock.error_us);
    const auto parts = gather_texts(world(), perfetto_part(traced.taken.trace));
    const std::vector<json> events = events_of(parts, traced.taken.facts);
    const Calls calls = calls_of(events);
    expect_calls_find_each_other(calls, error_us);
    expect_flows_in_pairs(events);
    EXPECT_EQ(calls.collectives.empty(), size() == 1);
    EXPECT_EQ(calls.sent.empty(), layout.mesh.pipeline == 1);
  }
}

}  // namespace
}  // namespace trireme
