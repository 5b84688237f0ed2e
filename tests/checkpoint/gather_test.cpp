// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/gather.h"

#include "tests/support/cpu_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"
#include "tests/support/sample_params.h"

namespace trireme {
namespace {

constexpr int blocks = 8;

std::vector<PlacedParam> placed_over(int stages) {
  const auto units = test::sample_units();
  std::vector<PlacedParam> placed;
  for (int stage = 0; stage < stages; ++stage) {
    const std::size_t n = units.size(), s = static_cast<std::size_t>(stage),
                      of = static_cast<std::size_t>(stages);
    for (std::size_t unit = s * n / of; unit < (s + 1) * n / of; ++unit) {
      for (const ParamSpec& spec : units[unit]) {
        if (!spec.is_copy()) placed.push_back({spec, stage});
      }
    }
  }
  return placed;
}

class GatherTest : public test::MpiTest {
 protected:
  // The sample values, gathered from masters or from separate memory of the slices.
  [[nodiscard]] std::vector<WholeTensor> gather(const ProcessMesh& mesh, int zero,
                                                int tensor_blocks, bool with_statistics) const {
    const ParamStore store = test::sample_part(device(), mesh.shape(), mesh.here(), tensor_blocks,
                                               {.zero = {.stage = zero}});
    const ParamLayout& layout = store.layout();
    const auto owned = [&](const Bucket& bucket) {
      const Tensor slice = store.masters().owned(bucket);
      test::fill_owned(layout, bucket, slice, [](const ParamSpec& spec, std::int64_t i) {
        return test::sample_value(spec.name, i);
      });
      return slice;
    };
    return gather_whole(device(), mesh, comm_stream(), store, placed_over(mesh.shape().pipeline),
                        owned, with_statistics);
  }
  [[nodiscard]] std::vector<WholeTensor> gather_alone(bool with_statistics) const {
    const auto single = make_single_communicator();
    return gather(ProcessMesh(*single, {}), 0, 1, with_statistics);
  }
};

TEST_F(GatherTest, BringsWholeTensorsToRankZeroFromEveryMeshAndStage) {
  for (const bool with_statistics : {false, true}) {
    const std::string digest = digest_of(gather_alone(with_statistics));
    for (const int zero : {0, 1, 2, 3}) {
      for (const MeshShape& shape : test::zero_meshes_of(size(), zero)) {
        if (shape.pipeline > static_cast<int>(test::sample_units().size())) continue;
        const ProcessMesh mesh(world(), shape);
        SCOPED_TRACE(fmt::format(
            "pipeline {} x data {} x tensor {}, stage {} in groups of {}, experts on {}",
            shape.pipeline, shape.data, shape.tensor, zero, shape.shard, shape.expert));

        const auto tensors = gather(mesh, zero, blocks, with_statistics);

        if (rank() != 0) {
          EXPECT_TRUE(tensors.empty());
          continue;
        }
        EXPECT_EQ(digest_of(tensors), digest);
        for (const WholeTensor& tensor : tensors) {
          for (std::size_t i = 0; i < tensor.values.size(); ++i)
            ASSERT_EQ(tensor.values[i],
                      test::sample_value(tensor.name, static_cast<std::int64_t>(i)))
                << tensor.name << " " << i;
        }
      }
    }
  }
}

TEST_F(GatherTest, ListsParametersInChainOrderWithoutCopiesAndStatisticsOnlyWhenAsked) {
  const auto names = [&](bool with_statistics) {
    std::vector<std::string> all;
    for (const WholeTensor& tensor : gather_alone(with_statistics))
      all.push_back(tensor.name);
    return all;
  };

  EXPECT_EQ(names(false),
            (std::vector<std::string>{"table", "experts.weight", "experts.bias", "a.weight",
                                      "a.bias", "a.scale", "b.qkv.weight", "b.qkv.bias",
                                      "b.grouped.weight", "c.weight", "d.weight", "d.bias"}));
  EXPECT_EQ(names(true), (std::vector<std::string>{"table", "experts.weight", "experts.bias",
                                                   "a.weight", "a.bias", "a.scale", "a.running",
                                                   "b.qkv.weight", "b.qkv.bias", "b.grouped.weight",
                                                   "c.weight", "c.running", "d.weight", "d.bias"}));
}

TEST_F(GatherTest, NamesAParameterThatItsStageDoesNotHave) {
  const auto single = make_single_communicator();
  const ProcessMesh alone(*single, {});
  const ParamStore store = test::sample_part(device(), {}, {}, 1, {});
  const std::vector<PlacedParam> wrong{{.spec = {.name = "e.weight", .shape = {2}}, .stage = 0}};

  test::expect_error(
      ExitCode::internal,
      [&] {
        static_cast<void>(gather_whole(
            device(), alone, comm_stream(), store, wrong,
            [&](const Bucket& bucket) { return store.masters().owned(bucket); }, true));
      },
      "stage 0 has no parameter e.weight");
}

TEST(Digest, DependsOnNamesShapesValuesAndOrder) {
  const WholeTensor a{"a", {2, 3}, {1, 2, 3, 4, 5, 6}}, b{"b", {1}, {7}};
  WholeTensor renamed = a, reshaped = a, changed = a;
  renamed.name = "c";
  reshaped.shape = {3, 2};
  changed.values[5] = std::nextafter(6.0F, 7.0F);
  const auto digest = [](const std::vector<WholeTensor>& tensors) { return digest_of(tensors); };

  EXPECT_EQ(digest({a, b}), digest({a, b}));
  EXPECT_EQ(digest({a, b}).size(), 16U);
  for (const auto& other : {std::vector{renamed, b}, {reshaped, b}, {changed, b}, {b, a}, {a}})
    EXPECT_NE(digest(other), digest({a, b}));
}

}  // namespace
}  // namespace trireme
