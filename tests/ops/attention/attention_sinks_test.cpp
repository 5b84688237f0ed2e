// SPDX-License-Identifier: Apache-2.0
// Attention with sinks, against formulas in fp64 and against attention without.
#include "runtime/ops/attention/attention.h"

#include <map>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

struct SinkCase {
  std::int64_t batch, length, size;
  ops::AttentionOptions options;
  std::int64_t document = 0;  // length of each; 0: one

  [[nodiscard]] std::int64_t packed() const {
    return (options.heads + 2 * options.kv_heads) * size;
  }
  [[nodiscard]] Shape qkv() const { return {batch, length, packed()}; }
  [[nodiscard]] Shape out() const { return {batch, length, options.heads * size}; }
  [[nodiscard]] Shape lse() const { return {batch, options.heads, length}; }
  [[nodiscard]] std::int64_t start(std::int64_t t) const {
    return document == 0 ? 0 : t / document * document;
  }
  [[nodiscard]] GuardedTensor starts() const {
    std::vector<double> values;
    for (std::int64_t i = 0; i < batch * length; ++i)
      values.push_back(static_cast<double>(start(i % length)));
    return {DType::i32, {batch, length}, values};
  }
  [[nodiscard]] bool sees(std::int64_t query, std::int64_t key) const {
    return (!options.causal || key <= query) &&
           (options.window == 0 || key > query - options.window) && key >= start(query);
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{} keys of {} heads, window {}, documents of {}", qkv().to_string(),
                       options.kv_heads, options.window, document);
  }
};

const SinkCase sink_cases[] = {
    {1, 1, 4, {.heads = 2, .kv_heads = 2}},
    {2, 33, 16, {.heads = 4, .kv_heads = 2}},
    {1, 150, 64, {.heads = 3, .kv_heads = 1}},
    {2, 60, 20, {.heads = 2, .kv_heads = 2, .causal = false}},
    {1, 200, 17, {.heads = 2, .kv_heads = 1, .window = 7}},
    {1, 250, 32, {.heads = 2, .kv_heads = 2, .window = 97}},
    {2, 110, 8, {.heads = 4, .kv_heads = 2, .window = 30}, 41},
    {1, 70, 8, {.heads = 2, .kv_heads = 2, .soft_cap = 1.5, .scale = 0.3}}};

struct SinkResult {
  std::vector<double> out, lse, dqkv, dsinks;
};

// The textbook's formulas. With the probabilities p of a query: out = sum p_j v_j, and of the
// score s_j: ds_j = p_j (dout v_j - dout out), with v = 0 for the sink.
SinkResult sink_reference(const SinkCase& c, const std::vector<double>& qkv,
                          const std::vector<double>& dout, const std::vector<double>& sinks) {
  const auto& o = c.options;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  SinkResult r{std::vector<double>(dout.size()), std::vector<double>(at(c.lse().count())),
               std::vector<double>(qkv.size()), std::vector<double>(sinks.size())};
  const double scale = o.scale > 0 ? o.scale : 1 / std::sqrt(static_cast<double>(c.size));
  for (std::int64_t i = 0; i < c.batch * o.heads * c.length; ++i) {
    const std::int64_t b = i / c.length / o.heads, h = i / c.length % o.heads, t = i % c.length;
    const std::int64_t key_head = o.heads + h / (o.heads / o.kv_heads);
    const auto place = [&](std::int64_t row, std::int64_t head) {
      return at((b * c.length + row) * c.packed() + head * c.size);
    };
    const auto dot = [&](const std::vector<double>& x, std::size_t x_at,
                         const std::vector<double>& y, std::size_t y_at) {
      double sum = 0;
      for (std::size_t d = 0; d < at(c.size); ++d)
        sum += x[x_at + d] * y[y_at + d];
      return sum;
    };
    const std::size_t query = place(t, h);
    const std::size_t own = at((b * c.length + t) * o.heads * c.size + h * c.size);
    std::vector<double> score(at(c.length)), slope(at(c.length));
    double sum = std::exp(sinks[at(h)]);
    for (std::int64_t j = 0; j < c.length; ++j) {
      const double s = scale * dot(qkv, query, qkv, place(j, key_head));
      const double capped = o.soft_cap > 0 ? o.soft_cap * std::tanh(s / o.soft_cap) : s;
      score[at(j)] = capped;
      slope[at(j)] = o.soft_cap > 0 ? 1 - capped * capped / (o.soft_cap * o.soft_cap) : 1;
      if (c.sees(t, j)) sum += std::exp(capped);
    }
    const double lse = r.lse[at(i)] = std::log(sum);
    for (std::int64_t j = 0; j < c.length; ++j) {
      for (std::size_t d = 0; c.sees(t, j) && d < at(c.size); ++d)
        r.out[own + d] += std::exp(score[at(j)] - lse) * qkv[place(j, key_head + o.kv_heads) + d];
    }
    const double delta = dot(dout, own, r.out, own);
    r.dsinks[at(h)] -= std::exp(sinks[at(h)] - lse) * delta;
    for (std::int64_t j = 0; j < c.length; ++j) {
      if (!c.sees(t, j)) continue;
      const std::size_t key = place(j, key_head), value = place(j, key_head + o.kv_heads);
      const double p = std::exp(score[at(j)] - lse);
      const double ds = scale * slope[at(j)] * p * (dot(dout, own, qkv, value) - delta);
      for (std::size_t d = 0; d < at(c.size); ++d) {
        r.dqkv[query + d] += ds * qkv[key + d];
        r.dqkv[key + d] += ds * qkv[query + d];
        r.dqkv[value + d] += p * dout[own + d];
      }
    }
  }
  return r;
}

// What a case needs and makes, with sinks of a few times the scores' size.
struct SinkRun {
  SinkRun(const SinkCase& of, DType dtype)
      : c(of),
        starts(c.starts()),
        qkv(random_tensor(dtype, c.qkv(), 1, -2.0, 2.0)),
        dout(random_tensor(dtype, c.out(), 2)),
        sinks(random_tensor(DType::f32, {c.options.heads}, 3, -2.0, 4.0)),
        out(dtype, c.out()),
        lse(DType::f32, c.lse()),
        dqkv(dtype, c.qkv()),
        dsinks(DType::f32, {c.options.heads},
               std::vector<double>(static_cast<std::size_t>(c.options.heads))),
        options(c.options) {
    if (c.document > 0) options.document_starts = starts.view();
    options.sinks = sinks.view();
  }
  void forward() const { ops::attention_forward(stream(), out, lse, qkv, options); }
  void backward() const {
    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, options, dsinks);
  }

  SinkCase c;
  GuardedTensor starts, qkv, dout, sinks, out, lse, dqkv, dsinks;
  ops::AttentionOptions options;
};

class AttentionSinks : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, AttentionSinks,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(AttentionSinks, TakePartOfTheWeightOfEachHead) {
  const double absolute = GetParam() == DType::f32 ? 5e-6 : 2.5 * rounding_of(GetParam());
  for (const SinkCase& c : sink_cases) {
    SCOPED_TRACE(c.name());
    const SinkRun run(c, GetParam());
    const SinkResult expected = sink_reference(c, run.qkv.get(), run.dout.get(), run.sinks.get());

    run.forward();
    run.backward();

    expect_close(run.out.get(), expected.out, 1e-5, absolute);
    expect_close(run.lse.get(), expected.lse, 1e-5, 5e-6);
    expect_close(run.dqkv.get(), expected.dqkv, 8 * rounding_of(GetParam()), absolute);
    expect_close(run.dsinks.get(), expected.dsinks, 8 * rounding_of(GetParam()), 8 * absolute);
  }
}

TEST_P(AttentionSinks, GetGradientsThatAddToThoseBefore) {
  const SinkRun run(sink_cases[1], GetParam());
  run.forward();
  run.backward();
  const std::vector<double> once = run.dsinks.get();

  run.backward();

  const std::vector<double> twice = run.dsinks.get();
  for (std::size_t h = 0; h < once.size(); ++h)
    EXPECT_EQ(twice[h], 2 * once[h]);
}

// A head has the same gradient beside others and alone, as tensor parallelism splits heads.
TEST_P(AttentionSinks, GetTheSameBitsInEverySplitOfTheHeads) {
  const SinkRun whole({2, 90, 16, {.heads = 2, .kv_heads = 2}}, GetParam());
  whole.forward();
  whole.backward();
  const std::vector<double> text = whole.qkv.get(), slopes = whole.dout.get();

  for (std::size_t head = 0; head < 2; ++head) {
    const SinkRun alone({2, 90, 16, {.heads = 1, .kv_heads = 1}}, GetParam());
    std::vector<double> part, slope;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i / 16 % 2 == head) part.push_back(text[i]);
    }
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      if (i / 16 % 2 == head) slope.push_back(slopes[i]);
    }
    const GuardedTensor qkv(GetParam(), alone.c.qkv(), part),
        dout(GetParam(), alone.c.out(), slope);
    ops::AttentionOptions options = alone.options;
    options.sinks = whole.sinks.view().range(static_cast<std::int64_t>(head), 1);

    ops::attention_forward(stream(), alone.out, alone.lse, qkv, options);
    ops::attention_backward(stream(), alone.dqkv, dout, alone.out, alone.lse, qkv, options,
                            alone.dsinks);

    EXPECT_EQ(alone.dsinks.get()[0], whole.dsinks.get()[head]);
  }
}

// Sinks far below all scores weigh nothing.
TEST_P(AttentionSinks, ChangeNoBitWhereTheyAreAbsentOrWeighNothing) {
  for (const SinkCase& c : sink_cases) {
    SCOPED_TRACE(c.name());
    const SinkRun run(c, GetParam());
    const GuardedTensor low(DType::f32, {c.options.heads},
                            std::vector<double>(static_cast<std::size_t>(c.options.heads), -1e30));
    const auto bits = [&](const Tensor& sinks) {
      ops::AttentionOptions options = run.options;
      options.sinks = sinks;
      ops::attention_forward(stream(), run.out, run.lse, run.qkv, options);
      ops::attention_backward(stream(), run.dqkv, run.dout, run.out, run.lse, run.qkv, options,
                              sinks.empty() ? Tensor{} : run.dsinks.view());
      return std::tuple(run.out.raw(), run.lse.raw(), run.dqkv.raw());
    };

    EXPECT_EQ(bits(low), bits({}));
    EXPECT_EQ(run.dsinks.get(),
              std::vector<double>(static_cast<std::size_t>(c.options.heads), 0.0));
  }
}

TEST_P(AttentionSinks, WeighAsMuchInRowsWithCachedKeys) {
  for (const SinkCase& c : sink_cases) {
    if (!c.options.causal || c.document > 0) continue;
    SCOPED_TRACE(c.name());
    const SinkRun run(c, GetParam());
    const Shape cache{c.batch, c.length, c.options.kv_heads * c.size};
    const GuardedTensor keys(GetParam(), cache), values(GetParam(), cache);
    const GuardedTensor out(GetParam(), c.out());
    std::vector<double> all;
    for (std::int64_t b = 0; b < c.batch; ++b)
      all.insert(all.end(), {0.0, static_cast<double>(c.length)});
    const GuardedTensor spans(DType::i32, {c.batch, 2}, all);

    run.forward();
    ops::attention_cached_forward(stream(), out, keys, values, run.qkv, spans, run.options);

    if (stream().device().type() == DeviceType::cpu) {
      EXPECT_EQ(out.raw(), run.out.raw());
    } else {
      expect_close(out.get(), run.out.get(), 2.5 * relative() + 1e-5, 5e-6);
    }
  }
}

// Stands in for cuDNN under the emulated GPU, which knows no sinks: runs each sample by itself.
class SamplePlan final : public ops::cuda::CudnnPlan {
 public:
  explicit SamplePlan(const ops::cuda::AttentionGraph& graph) : graph_(graph) {}

  [[nodiscard]] std::size_t workspace_bytes() const override { return 0; }
  [[nodiscard]] DType result() const override { return graph_.dtype; }
  void run(Stream& on, std::span<void* const> operands, void* /*workspace*/) const override {
    ++runs;
    const auto& g = graph_;
    const Shape packed{1, g.length, (g.heads + 2 * g.kv_heads) * g.size};
    const Shape plain{1, g.length, g.heads * g.size}, sums{1, g.heads, g.length};
    for (std::int64_t b = 0; b < g.batch; ++b) {
      const auto tensor = [&](std::size_t which, DType dtype, const Shape& shape) {
        const auto first = static_cast<std::size_t>(b * shape.count()) * size_of(dtype);
        return Tensor{static_cast<std::byte*>(operands[which]) + first, dtype, shape};
      };
      const Tensor qkv = tensor(0, g.dtype, packed), out = tensor(3, g.dtype, plain);
      const Tensor lse = tensor(4, DType::f32, sums);
      const ops::AttentionOptions options{g.heads, g.kv_heads, g.causal, g.window};
      if (g.pass == ops::cuda::AttentionGraph::Pass::forward) {
        ops::attention_forward(on, out, lse, qkv, options);
      } else {
        ops::attention_backward(on, tensor(6, g.dtype, packed), tensor(5, g.dtype, plain), out, lse,
                                qkv, options);
      }
    }
  }
  static const ops::cuda::CudnnPlan* make(const ops::cuda::CudnnGraph& graph) {
    const auto& attention = std::get<ops::cuda::AttentionGraph>(graph);
    static std::map<ops::cuda::CudnnGraph, SamplePlan> plans;
    if (attention.batch == 1) return nullptr;
    return &plans.try_emplace(graph, attention).first->second;
  }
  static inline int runs = 0;

 private:
  ops::cuda::AttentionGraph graph_;
};

TEST_P(AttentionSinks, JoinThePlansOfALibraryWithoutThem) {
  if (stream().device().type() != DeviceType::cuda || !ops::cuda::cudnn_version().empty() ||
      GetParam() == DType::f32)
    GTEST_SKIP() << "the stand-in for cuDNN is for the emulated GPU, and runs 16 bits";
  const SinkRun run({3, 40, 16, {.heads = 4, .kv_heads = 2, .window = 9}}, GetParam());
  const SinkResult expected = sink_reference(run.c, run.qkv.get(), run.dout.get(), run.sinks.get());
  SamplePlan::runs = 0;

  cuda_slot<& ops::cuda::cudnn_plan> = &SamplePlan::make;
  run.forward();
  run.backward();
  cuda_slot<& ops::cuda::cudnn_plan> = nullptr;

  EXPECT_EQ(SamplePlan::runs, 2);
  const double absolute = 3.5 * rounding_of(GetParam());  // out is rounded twice
  expect_close(run.out.get(), expected.out, 1e-5, absolute);
  expect_close(run.lse.get(), expected.lse, 1e-5, 5e-6);
  expect_close(run.dqkv.get(), expected.dqkv, 8 * rounding_of(GetParam()), absolute);
  expect_close(run.dsinks.get(), expected.dsinks, 8 * rounding_of(GetParam()), 8 * absolute);
}

TEST_P(AttentionSinks, OfOtherShapesAreRefused) {
  const SinkRun run(sink_cases[1], GetParam());
  const GuardedTensor three(DType::f32, {3});
  ops::AttentionOptions wrong = run.options, none = run.options;
  wrong.sinks = three.view();
  none.sinks = {};

  expect_error([&] { ops::attention_forward(stream(), run.out, run.lse, run.qkv, wrong); },
               {"sinks", "(3)", "(4)"});
  const auto backward = [&](const ops::AttentionOptions& options, const Tensor& dsinks) {
    ops::attention_backward(stream(), run.dqkv, run.dout, run.out, run.lse, run.qkv, options,
                            dsinks);
  };
  expect_error([&] { backward(run.options, three); }, {"dsinks", "(3)", "(4)"});
  expect_error([&] { backward(none, run.dsinks); }, {"sinks"});
}

class AttentionSinkGradients : public ::testing::TestWithParam<SinkCase> {};
INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionSinkGradients,
    ::testing::Values(SinkCase{2, 6, 3, {.heads = 2, .kv_heads = 1}},
                      SinkCase{1, 7, 2, {.heads = 2, .kv_heads = 2, .window = 3}, 4},
                      SinkCase{1, 5, 2, {.heads = 1, .kv_heads = 1, .causal = false}}),
    [](const auto& info) { return fmt::format("case_{}", info.index); });

TEST_P(AttentionSinkGradients, AgreeWithFiniteDifferences) {
  const SinkRun run(GetParam(), DType::f32);
  const std::vector<double> qkv = run.qkv.get(), slope = run.dout.get(), sinks = run.sinks.get();
  const auto loss = [&](const std::vector<double>& x, const std::vector<double>& s) {
    const SinkResult result = sink_reference(run.c, x, slope, s);
    double sum = 0;
    for (std::size_t i = 0; i < slope.size(); ++i)
      sum += slope[i] * result.out[i];
    return sum;
  };

  run.forward();
  run.backward();

  expect_close(run.dqkv.get(), numeric_gradient(qkv, [&](const auto& x) { return loss(x, sinks); }),
               1e-5, 2e-6);
  expect_close(run.dsinks.get(),
               numeric_gradient(sinks, [&](const auto& s) { return loss(qkv, s); }), 1e-5, 2e-6);
}

}  // namespace
}  // namespace trireme
