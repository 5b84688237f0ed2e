// SPDX-License-Identifier: Apache-2.0
// Transformers whose sequences are cut over all ranks, against one rank with the same blocks, and
// against whole sequences.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "tests/models/model_case.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using test::Bits;
using test::ModelCase;
using test::ModelResult;

constexpr std::int64_t positions = 24;

struct Cut {
  std::string_view family = "Llama";
  ContextMode mode = ContextMode::gather;
  DType compute = DType::f32;
  Recompute recompute = Recompute::none;
  bool split_backward = false;
  std::vector<std::int64_t> documents{};
  std::int64_t kv_heads = 0;  // 0: the family's
  std::int64_t tensor_blocks = 1;
  bool adapted = false;
  std::int64_t row_tile = 0;
  double tolerance = 2e-5;  // beside whole sequences

  [[nodiscard]] TransformerOptions model() const {
    TransformerOptions options = test::small_llama;
    if (family == "Gpt") options = test::small_gpt;
    if (family == "Gemma") options = test::small_gemma;
    if (family == "Olmo") options = test::small_olmo;
    if (family == "Sinks") options = test::small_sinks;
    if (family == "Experts") options = test::small_experts;
    options.experts.sequence_balance_loss = 0;  // of whole sequences
    if (kv_heads > 0) options.kv_heads = kv_heads;
    options.context = positions;
    return options;
  }
};

std::ostream& operator<<(std::ostream& stream, const Cut& cut) {
  return stream << cut.family << (cut.mode == ContextMode::heads ? " heads" : " gather")
                << (cut.documents.empty() ? "" : " documents");
}

class ContextParallel : public test::MpiTest, public testing::WithParamInterface<Cut> {
 protected:
  [[nodiscard]] static BuildOptions build(int ranks, int rank, int blocks) {
    const Cut& cut = GetParam();
    return {.compute = cut.compute,
            .micro_batch = test::small_batch,
            .training = true,
            .recompute = cut.recompute,
            .split_backward = cut.split_backward,
            .row_tile = cut.row_tile,
            .separate_documents = !cut.documents.empty(),
            .tensor = {.ranks = 1, .rank = 0, .blocks = static_cast<int>(cut.tensor_blocks)},
            .context = {ranks, rank, blocks, positions, cut.mode},
            .adapters = cut.adapted ? test::small_adapters : AdapterOptions{}};
  }
  [[nodiscard]] ModelResult run(const BuildOptions& options, const TensorGroup* group) {
    ModelCase with(device(), compute(), GetParam().model(), options, group);
    if (!GetParam().documents.empty()) with.separate(GetParam().documents, 1);
    return with.run(1);
  }
  [[nodiscard]] ModelResult run_alone(int blocks) {
    const auto single = make_single_communicator();
    const TensorGroup group(device(), *single, comm_stream());
    return run(build(1, 0, blocks), &group);
  }
};

TEST_P(ContextParallel, HasTheBitsOfOneRankWithTheSameBlocks) {
  for (const int local : {1, 2}) {
    const int blocks = size() * local;
    if (blocks == 1 || positions % (2 * blocks) != 0 || (local > 1 && size() == 3)) continue;
    if (GetParam().mode == ContextMode::heads && 8 % blocks != 0) continue;
    SCOPED_TRACE(fmt::format("{} ranks, {} blocks", size(), blocks));
    const ModelResult expected = run_alone(blocks);
    const TensorGroup group(device(), world(), comm_stream());

    const BuildOptions options = build(size(), rank(), blocks);
    const ModelResult got = run(options, &group);

    for (int block = 0; block < local; ++block)
      for (const ContextRun& own : options.context.runs(rank() * local + block))
        for (std::int64_t sample = 0; sample < test::small_batch; ++sample)
          for (std::int64_t t = own.position; t < own.position + own.rows; ++t) {
            const auto at = static_cast<std::size_t>(sample * positions + t);
            ASSERT_EQ(got.losses[at], expected.losses[at]) << "position " << t;
            ASSERT_EQ(got.correct[at], expected.correct[at]) << "position " << t;
          }
    EXPECT_EQ(got.gradients, expected.gradients);
    for (const auto& [name, times] : got.reports)
      EXPECT_EQ(times, 1) << name;
  }
}

double distance(const Bits& a, const Bits& b) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(std::bit_cast<float>(a[i]));
    const auto y = static_cast<double>(std::bit_cast<float>(b[i]));
    difference += (x - y) * (x - y);
    scale += y * y;
  }
  return std::sqrt(difference) / std::max(std::sqrt(scale), 1e-6);
}

TEST_P(ContextParallel, HasTheGradientsOfWholeSequences) {
  if (size() > 1) GTEST_SKIP() << "one rank has the bits of several";
  const ModelResult whole = run_alone(1);
  for (const int blocks : {2, 3, 4}) {
    if (GetParam().mode == ContextMode::heads && 8 % blocks != 0) continue;
    SCOPED_TRACE(fmt::format("{} blocks", blocks));

    const ModelResult cut = run_alone(blocks);

    EXPECT_LT(distance(cut.losses, whole.losses), GetParam().tolerance);
    ASSERT_EQ(cut.gradients.size(), whole.gradients.size());
    for (const auto& [name, expected] : whole.gradients)
      EXPECT_LT(distance(cut.gradients.at(name), expected), GetParam().tolerance) << name;
  }
}

TEST_P(ContextParallel, OtherDocumentsChangeNoBit) {
  if (GetParam().documents.empty()) GTEST_SKIP() << "one document";
  const int blocks = size() == 1 ? 4 : size();
  if (GetParam().mode == ContextMode::heads && 8 % blocks != 0) return;
  const TensorGroup group(device(), world(), comm_stream());
  const BuildOptions options = build(size(), rank(), blocks);
  const auto losses = [&](bool changed) {
    ModelCase with(device(), compute(), GetParam().model(), options, &group);
    with.separate(GetParam().documents, 1);
    if (changed) with.change_other_tokens(1);
    return with.run(1);
  };
  const ModelResult before = losses(false), after = losses(true);
  EXPECT_EQ(before.losses, after.losses);
  for (const auto& [name, expected] : before.gradients) {
    if (name.find("embedding") != name.npos) continue;
    EXPECT_EQ(after.gradients.at(name), expected) << name;
  }
}

// Documents of one token, longer than a block, and one that ends at a cut (of 4 blocks, at 12).
const std::vector<std::int64_t> documents{1, 11, 5, 7};

INSTANTIATE_TEST_SUITE_P(
    Cuts, ContextParallel,
    testing::Values(
        Cut{}, Cut{.family = "Gpt"}, Cut{.family = "Gemma"}, Cut{.family = "Sinks"},
        Cut{.family = "Experts"}, Cut{.family = "Olmo"}, Cut{.documents = documents},
        Cut{.family = "Gpt", .documents = documents}, Cut{.recompute = Recompute::selective},
        Cut{.recompute = Recompute::full, .documents = documents}, Cut{.split_backward = true},
        Cut{.family = "Sinks", .split_backward = true, .documents = documents},
        Cut{.compute = DType::bf16, .tolerance = 0.06}, Cut{.tensor_blocks = 2},
        Cut{.adapted = true}, Cut{.row_tile = 3},
        Cut{.family = "Gpt", .recompute = Recompute::selective, .tensor_blocks = 2, .row_tile = 6},
        Cut{.compute = DType::bf16, .recompute = Recompute::full, .row_tile = 6, .tolerance = 0.06},
        Cut{.mode = ContextMode::heads},
        Cut{.family = "Sinks", .mode = ContextMode::heads, .documents = documents},
        Cut{.mode = ContextMode::heads, .kv_heads = 2},
        Cut{.mode = ContextMode::heads, .recompute = Recompute::selective, .kv_heads = 1},
        Cut{.mode = ContextMode::heads, .compute = DType::bf16, .kv_heads = 1, .tolerance = 0.06},
        Cut{.mode = ContextMode::heads, .split_backward = true, .tensor_blocks = 2}));

}  // namespace
}  // namespace trireme
