// SPDX-License-Identifier: Apache-2.0
// Documents of attention as sequences of a ragged batch, which cuDNN runs.
#include <map>

#include "runtime/device/cuda_slot.h"
#include "runtime/ops/attention/attention_sizes.h"
#include "runtime/ops/common/cudnn_graphs.h"
#include "runtime/ops/elementwise/rope.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme {
namespace {

using namespace test;

class DocumentRope : public TypedOp {};
INSTANTIATE_TEST_SUITE_P(Types, DocumentRope,
                         ::testing::Values(DType::f32, DType::bf16, DType::f16), dtype_label);

TEST_P(DocumentRope, HasRotaryPositionsThatCountFromTheBeginOfADocument) {
  const Shape shape{2, 7, 4 * 6};
  const GuardedTensor qkv = random_tensor(GetParam(), shape, 1);
  const GuardedTensor starts(DType::i32, {2, 7}, {0, 0, 0, 3, 3, 3, 3, 0, 1, 1, 1, 1, 1, 6});
  const Values before = qkv.get();
  ops::RopeOptions options{.heads = 2, .kv_heads = 1, .base = 100.0};
  Values expected;  // of each document by itself
  for (const std::int64_t count : {3, 4, 1, 5, 1}) {
    const auto first = before.begin() + static_cast<std::ptrdiff_t>(expected.size());
    const GuardedTensor alone(GetParam(), {1, count, 24}, Values(first, first + count * 24));
    ops::rope_forward(stream(), alone, options);
    const Values turned = alone.get();
    expected.insert(expected.end(), turned.begin(), turned.end());
  }

  options.document_starts = starts.view();
  ops::rope_forward(stream(), qkv, options);

  EXPECT_EQ(qkv.get(), expected);
  ops::rope_backward(stream(), qkv, options);
  expect_close(qkv.get(), before, 4 * rounding_of(GetParam()), 1e-6 + 4 * rounding_of(GetParam()));
}

TEST(DocumentPlaces, AreThoseOfEveryTensor) {
  constexpr std::array<std::int32_t, 5> bounds{0, 3, 10, 10, 10};
  std::array<std::int32_t, 4> lengths{};
  std::array<std::int64_t, 5> projection{}, out{}, lse{};
  const ops::DocumentPlaces places{lengths.data(), projection.data(), out.data(), lse.data()};

  for (std::int64_t at = 0; at <= 4; ++at)
    places.fill(at, 4, bounds.data(), 4, 2, 16);

  EXPECT_EQ(lengths, (std::array{3, 7, 0, 0}));
  EXPECT_EQ(projection, (std::array<std::int64_t, 5>{0, 384, 1280, 1280, 1280}));
  EXPECT_EQ(out, (std::array<std::int64_t, 5>{0, 192, 640, 640, 640}));
  EXPECT_EQ(lse, (std::array<std::int64_t, 5>{0, 12, 40, 40, 40}));
}

// Stands in for cuDNN under the emulated GPU: runs each document as a batch of its own, found by
// the lengths and offsets that it is given.
class DocumentPlan final : public ops::cuda::CudnnPlan {
 public:
  explicit DocumentPlan(const ops::cuda::AttentionGraph& graph) : graph_(graph) {}

  [[nodiscard]] std::size_t workspace_bytes() const override { return 100; }
  [[nodiscard]] DType result() const override { return graph_.dtype; }
  void run(Stream& on, std::span<void* const> operands, void* /*workspace*/) const override {
    const auto count = static_cast<std::size_t>(graph_.sequences);
    const auto lengths = fetched<std::int32_t>(on, operands[0], count);
    std::array<std::vector<std::int64_t>, 3> offsets;
    for (std::size_t which = 0; which < 3; ++which)
      offsets[which] = fetched<std::int64_t>(on, operands[which + 1], count + 1);
    for (std::size_t i = 0; i < count; ++i) {
      if (lengths[i] > 0)
        run_one(on, operands.subspan(4), lengths[i], {offsets[0][i], offsets[1][i], offsets[2][i]});
    }
  }
  static const ops::cuda::CudnnPlan* make(const ops::cuda::CudnnGraph& graph) {
    const auto& attention = std::get<ops::cuda::AttentionGraph>(graph);
    static std::map<ops::cuda::CudnnGraph, DocumentPlan> plans;
    if (attention.sequences == 0) return nullptr;
    return &plans.try_emplace(graph, attention).first->second;
  }

 private:
  template <typename T>
  static std::vector<T> fetched(Stream& on, const void* from, std::size_t count) {
    std::vector<T> values(count);
    test::download(on, values.data(), from, count * sizeof(T));
    return values;
  }
  void run_one(Stream& on, std::span<void* const> operands, std::int64_t length,
               std::array<std::int64_t, 3> first) const {
    const auto tensor = [&](std::size_t which, std::int64_t at, std::int64_t width) {
      auto* const data = static_cast<std::byte*>(operands[which]);
      return Tensor{data + static_cast<std::size_t>(at) * size_of(graph_.dtype), graph_.dtype,
                    Shape{1, length, width}};
    };
    const std::int64_t heads = graph_.heads, row = (heads + 2 * graph_.kv_heads) * graph_.size;
    const ops::AttentionOptions options{heads, graph_.kv_heads, true, graph_.window};
    const Tensor qkv = tensor(0, first[0], row), out = tensor(3, first[1], heads * graph_.size);
    float* const kept = static_cast<float*>(operands[4]) + first[2];
    const GuardedTensor lse(DType::f32, {1, heads, length});
    if (graph_.pass == ops::cuda::AttentionGraph::Pass::forward) {
      ops::attention_forward(on, out, lse, qkv, options);
      move(on, kept, lse.view().data, heads, length);
    } else {
      move(on, lse.view().data, kept, length, heads);
      ops::attention_backward(on, tensor(6, first[0], row),
                              tensor(5, first[1], heads * graph_.size), out, lse, qkv, options);
    }
  }
  // (rows, columns) to (columns, rows).
  static void move(Stream& on, void* to, const void* from, std::int64_t rows,
                   std::int64_t columns) {
    const auto before = fetched<float>(on, from, static_cast<std::size_t>(rows * columns));
    std::vector<float> after;
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < rows; ++row)
        after.push_back(before[static_cast<std::size_t>(row * columns + column)]);
    }
    test::upload(on, to, after.data(), after.size() * sizeof(float));
  }

  ops::cuda::AttentionGraph graph_;
};

using AttentionDocuments = testing::TestWithParam<DType>;

TEST_P(AttentionDocuments, RunByPlansOfTheLibrary) {
  if (stream().device().type() != DeviceType::cuda || !ops::cuda::cudnn_version().empty())
    GTEST_SKIP() << "the stand-in for cuDNN is for the emulated GPU";
  const DType dtype = GetParam();
  constexpr std::int64_t batch = 2, length = 60, heads = 4, kv_heads = 2, size = 16;
  std::vector<double> begins{0, 1, 25, 50, 60, 62, 86, 111}, starts;
  for (std::int64_t at = 0; at < batch * length; ++at) {
    const auto next = std::ranges::upper_bound(begins, static_cast<double>(at));
    starts.push_back(*std::prev(next) - static_cast<double>(at / length * length));
  }
  begins.insert(begins.end(), 3, batch * length);  // of two more there are none
  const GuardedTensor starts_of(DType::i32, {batch, length}, starts);
  const GuardedTensor bounds(DType::i32, {static_cast<std::int64_t>(begins.size())}, begins);
  const Shape packed{batch, length, (heads + 2 * kv_heads) * size},
      plain{batch, length, heads * size};
  const GuardedTensor qkv = random_tensor(dtype, packed, 1), dout = random_tensor(dtype, plain, 2);
  const GuardedTensor sinks(DType::f32, {heads}, {0.5, -1, 3, 1});
  const auto run = [&](const Tensor& of_documents, const Tensor& of_heads) {
    ops::AttentionOptions options{.heads = heads, .kv_heads = kv_heads, .window = 20};
    options.document_starts = starts_of.view();
    options.document_bounds = of_documents;
    options.sinks = of_heads;
    const GuardedTensor out(dtype, plain), lse(DType::f32, {batch, heads, length});
    const GuardedTensor dqkv(dtype, packed), dsinks(DType::f32, {heads}, {0, 0, 0, 0});
    ops::attention_forward(stream(), out, lse, qkv, options);
    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, options,
                            of_heads.empty() ? Tensor{} : dsinks.view());
    return std::array{out.get(), dqkv.get(), dsinks.get(), lse.get()};
  };
  for (const Tensor& of_heads : {Tensor{}, sinks.view()}) {
    const auto expected = run({}, of_heads);

    cuda_slot<& ops::cuda::cudnn_plan> = &DocumentPlan::make;
    const auto seen = run(bounds.view(), of_heads);
    cuda_slot<& ops::cuda::cudnn_plan> = nullptr;

    const double rounding = 8 * rounding_of(dtype);
    expect_close(seen[0], expected[0], rounding, rounding);
    expect_close(seen[1], expected[1], rounding, rounding);
    expect_close(seen[2], expected[2], rounding, 4 * rounding);
    EXPECT_NE(seen[3], expected[3]) << "own kernels ran";
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionDocuments, testing::Values(DType::bf16, DType::f16));

}  // namespace
}  // namespace trireme
