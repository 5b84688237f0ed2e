// SPDX-License-Identifier: Apache-2.0
// Groups, order, bits, counters, barrier, split and misuse; on Single when run with one rank.
#include <algorithm>
#include <cmath>

#include "runtime/base/philox.h"
#include "runtime/comm/host/reduce.h"
#include "runtime/comm/process_mesh.h"
#include "runtime/device/cpu/cpu_stream.h"
#include "tests/comm/values.h"
#include "tests/support/allocation_count.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using test::expect_error;
using test::filled;
using test::value_of;
using test::Values;

class CommunicatorTest : public test::MpiTest {
 protected:
  [[nodiscard]] int next() const { return (rank() + 1) % size(); }
  [[nodiscard]] int previous() const { return (rank() + size() - 1) % size(); }
  [[nodiscard]] static std::vector<float> noise(int rank, std::size_t count) {
    const Philox random = Philox::keyed(7, RandomPurpose::test);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = Philox::uniform(random(static_cast<std::uint64_t>(rank), i)[0]) - 0.4F;
    }
    return values;
  }
};

TEST_F(CommunicatorTest, KnowsRankSizeAndName) {
  EXPECT_EQ(rank(), test::mpi().rank());
  EXPECT_EQ(size(), test::mpi().size());
  EXPECT_EQ(world().name(), "world");
}

TEST_F(CommunicatorTest, LargeWorldsMeetAtSeveralRootsOfNccl) {
  EXPECT_EQ(nccl_roots(1), 1);
  EXPECT_EQ(nccl_roots(128), 1);
  EXPECT_EQ(nccl_roots(129), 2);
  EXPECT_EQ(nccl_roots(1024), 8);
  if (!on_gpu()) return;
  for (const int ranks_per_root : {1, 2}) {
    const auto group = test::make_world(device(), {.ranks_per_root = ranks_per_root});
    Values values = filled(DType::i32, 5, rank());
    group->broadcast(comm_stream(), values.tensor(mirrors()), 0);
    finish();
    EXPECT_EQ(values.all(), filled(DType::i32, 5, 0).all());
  }
}

TEST_F(CommunicatorTest, AGroupOfLargeMessagesRoundARingCannotDeadlock) {
  constexpr std::int64_t count = 300'000;
  for (Stream* const stream : {&compute(), &comm_stream()}) {
    Values out = filled(DType::f32, count, rank());
    Values in(DType::f32, count);

    world().group_begin();
    world().send(*stream, out.tensor(mirrors()), next());
    world().recv(*stream, in.tensor(mirrors()), previous());
    world().group_end(*stream);
    finish();

    EXPECT_EQ(in.all(), filled(DType::f32, count, previous()).all());
    EXPECT_TRUE(in.guards_intact());
  }
}

TEST_F(CommunicatorTest, AGroupMixesCollectivesAndMessages) {
  Values small = filled(DType::i32, 5, rank());
  Values large = filled(DType::f32, 40'001, rank());
  Values part = filled(DType::u8, 3, rank());
  Values parts(DType::u8, 3 * size());
  Values out = filled(DType::bf16, 9, rank());
  Values in(DType::bf16, 9);

  world().group_begin();
  world().all_reduce(comm_stream(), small.tensor(mirrors()), small.tensor(mirrors()),
                     ReduceOp::sum);
  world().send(comm_stream(), out.tensor(mirrors()), next());
  world().all_reduce(comm_stream(), large.tensor(mirrors()), large.tensor(mirrors()),
                     ReduceOp::max);
  world().recv(comm_stream(), in.tensor(mirrors()), previous());
  world().all_gather(comm_stream(), part.tensor(mirrors()), parts.tensor(mirrors()));
  world().group_end(comm_stream());
  finish();

  for (std::int64_t i = 0; i < large.count(); ++i) {
    int largest = 0;
    for (int r = 0; r < size(); ++r)
      largest = std::max(largest, value_of(r, i));
    ASSERT_EQ(large.get(i), largest);
  }
  for (std::int64_t i = 0; i < 5; ++i) {
    int sum = 0;
    for (int r = 0; r < size(); ++r)
      sum += value_of(r, i);
    EXPECT_EQ(small.get(i), sum);
  }
  for (std::int64_t i = 0; i < parts.count(); ++i) {
    EXPECT_EQ(parts.get(i), value_of(static_cast<int>(i / 3), i % 3));
  }
  EXPECT_EQ(in.all(), filled(DType::bf16, 9, previous()).all());
}

TEST_F(CommunicatorTest, AnEmptyGroupIsNothing) {
  world().group_begin();
  world().group_end(comm_stream());
  finish();
}

TEST_F(CommunicatorTest, SumsHaveTheBitsOfTheRankTreeHoweverTheTensorIsCut) {
  constexpr std::size_t count = 50'021;
  std::vector<std::vector<float>> all;
  for (int r = 0; r < size(); ++r)
    all.push_back(noise(r, count));
  std::vector<float> whole = all[static_cast<std::size_t>(rank())];
  std::vector<float> pieces = whole;

  world().all_reduce(compute(), tensor_of(whole), tensor_of(whole), ReduceOp::sum);
  compute().synchronize();
  for (std::size_t begin = 0; begin < count;) {
    const std::size_t piece = std::min<std::size_t>(count - begin, 1 + begin * 3);
    const Tensor part =
        tensor_of(pieces).range(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(piece));
    world().all_reduce(comm_stream(), part, part, ReduceOp::sum);
    begin += piece;
  }
  finish();

  for (std::size_t stride = 1; stride < all.size(); stride *= 2) {
    for (std::size_t r = 0; r + stride < all.size(); r += 2 * stride) {
      for (std::size_t i = 0; i < count; ++i)
        all[r][i] += all[r + stride][i];
    }
  }
  EXPECT_EQ(whole, all[0]);
  EXPECT_EQ(pieces, all[0]);
}

TEST_F(CommunicatorTest, SumsHaveTheBitsOfTheTreeWhoseFirstRanksAreDoubled) {
  if (size() < 3) GTEST_SKIP() << "two have one tree";
  constexpr std::size_t count = 3'001;
  std::vector<std::vector<float>> all;
  std::vector<const std::byte*> inputs;
  for (int r = 0; r < size(); ++r)
    all.push_back(noise(r, count * static_cast<std::size_t>(size())));
  for (const auto& input : all)
    inputs.push_back(reinterpret_cast<const std::byte*>(input.data()));
  for (int doubled = 0; doubled < size(); ++doubled) {
    std::vector<float> expected(all[0].size());
    reduce_tree(DType::f32, ReduceOp::sum, inputs, reinterpret_cast<std::byte*>(expected.data()),
                static_cast<std::int64_t>(expected.size()), static_cast<std::size_t>(doubled));
    std::vector<float> whole = all[static_cast<std::size_t>(rank())], in = whole, slice(count);

    world().set_doubled(doubled);
    world().all_reduce(comm_stream(), tensor_of(whole), tensor_of(whole), ReduceOp::sum);
    world().reduce_scatter(comm_stream(), tensor_of(in), tensor_of(slice), ReduceOp::sum);
    finish();

    EXPECT_EQ(whole, expected) << doubled << " doubled";
    const auto own = expected.begin() + static_cast<std::ptrdiff_t>(count) * rank();
    EXPECT_TRUE(std::equal(slice.begin(), slice.end(), own)) << doubled << " doubled";
  }
  test::expect_error(
      ExitCode::internal, [&] { world().set_doubled(size()); }, "group world", "doubled");
}

TEST_F(CommunicatorTest, ReductionsLargerThanARoundAreWhole) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::size_t slice = ((std::size_t{33} << 17) + 7) / ranks;  // in all, above 32 MiB of i64
  std::vector<std::int64_t> sums(slice * ranks);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<std::int64_t>(i % 61) + rank();
  }
  std::vector<std::int64_t> maxima = sums;
  std::vector<std::int64_t> scattered = sums;
  const Tensor own = tensor_of(scattered).range(0, static_cast<std::int64_t>(slice));

  world().group_begin();
  world().all_reduce(comm_stream(), tensor_of(sums), tensor_of(sums), ReduceOp::sum);
  world().reduce_scatter(comm_stream(), tensor_of(scattered), own, ReduceOp::sum);
  world().all_reduce(comm_stream(), tensor_of(maxima), tensor_of(maxima), ReduceOp::max);
  world().group_end(comm_stream());
  finish();

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto base = static_cast<std::int64_t>(i % 61);
    if (sums[i] != base * size() + size() * (size() - 1) / 2) ++wrong;
    if (maxima[i] != base + size() - 1) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
  const auto first = static_cast<std::ptrdiff_t>(slice) * rank();
  EXPECT_TRUE(std::equal(scattered.begin(), scattered.begin() + static_cast<std::ptrdiff_t>(slice),
                         sums.begin() + first));
}

TEST_F(CommunicatorTest, CommunicationGoesOnWhileTheComputeStreamWorks) {
  if (on_gpu()) GTEST_SKIP() << "computes on the host";
  constexpr std::size_t buckets = 8;
  std::vector<std::vector<float>> data(buckets);
  std::vector<std::unique_ptr<Event>> ready;
  const auto done = device().make_event();
  double busy = 0;

  for (std::size_t b = 0; b < buckets; ++b) {
    ready.push_back(device().make_event());
    enqueue(compute(), [&] {
      data[b] = noise(rank(), 100'003);
      for (const float value : data[b])
        busy += std::sqrt(std::abs(static_cast<double>(value)));
    });
    compute().record(*ready[b]);
    comm_stream().wait(*ready[b]);
    world().all_reduce(comm_stream(), tensor_of(data[b]), tensor_of(data[b]), ReduceOp::max);
  }
  comm_stream().record(*done);
  compute().wait(*done);

  std::vector<float> largest = noise(0, 100'003);
  for (int r = 1; r < size(); ++r) {
    const std::vector<float> other = noise(r, 100'003);
    for (std::size_t i = 0; i < largest.size(); ++i)
      largest[i] = std::max(largest[i], other[i]);
  }
  for (const auto& bucket : data)
    EXPECT_EQ(bucket, largest);
  EXPECT_GT(busy, 0);
}

TEST_F(CommunicatorTest, ASteadyCallDoesNotAllocate) {
  if (test::over_tcp()) GTEST_SKIP() << "messages over TCP are kept in lists";
  if (on_gpu()) GTEST_SKIP() << "what the library allocates is its own affair";
  std::vector<float> small(10, 1.0F);
  std::vector<float> large(100'000, 1.0F);
  std::vector<float> gathered(10 * static_cast<std::size_t>(size()));
  const auto step = [&] {
    world().all_reduce(comm_stream(), tensor_of(large), tensor_of(large), ReduceOp::max);
    world().all_reduce(comm_stream(), tensor_of(small), tensor_of(small), ReduceOp::max);
    world().group_begin();
    world().all_gather(comm_stream(), tensor_of(small), tensor_of(gathered));
    world().send(comm_stream(), tensor_of(small), next());
    world().recv(comm_stream(), tensor_of(small), previous());
    world().group_end(comm_stream());
    finish();
  };
  step();

  const std::size_t before = test::allocations;
  for (int i = 0; i < 20; ++i)
    step();
  const std::size_t after = test::allocations;

  EXPECT_EQ(after - before, 0U);
}

TEST_F(CommunicatorTest, StatsCountCallsAndBytesPerVerb) {
  std::vector<float> a(12);
  std::vector<float> b(12 * static_cast<std::size_t>(size()));

  world().all_reduce(comm_stream(), tensor_of(a), tensor_of(a), ReduceOp::sum);
  world().all_reduce(comm_stream(), tensor_of(a), tensor_of(a), ReduceOp::sum);
  world().reduce_scatter(comm_stream(), tensor_of(b), tensor_of(a), ReduceOp::sum);
  world().all_gather(comm_stream(), tensor_of(a), tensor_of(b));
  world().broadcast(comm_stream(), tensor_of(a), 0);
  finish();

  const CommStats stats = world().stats();
  const auto all = static_cast<std::uint64_t>(48 * size());
  EXPECT_EQ(stats[Verb::all_reduce], (VerbStats{2, 96}));
  EXPECT_EQ(stats[Verb::reduce_scatter], (VerbStats{1, all}));
  EXPECT_EQ(stats[Verb::all_gather], (VerbStats{1, all}));
  EXPECT_EQ(stats[Verb::broadcast], (VerbStats{1, 48}));
  EXPECT_EQ(stats[Verb::send], VerbStats{});
  if (size() > 1 && !on_gpu()) {
    EXPECT_GT(stats.seconds, 0);
  }
}

TEST_F(CommunicatorTest, BarrierDoesNotMixWithQueuedCalls) {
  std::vector<float> data(100'000, 1.0F);

  world().all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  world().barrier();
  world().all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::max);
  finish();

  EXPECT_EQ(data, std::vector<float>(100'000, static_cast<float>(size())));
}

TEST_F(CommunicatorTest, SplitOrdersByKeyAndNamesTheGroup) {
  const auto reversed = world().split(0, -rank(), "reversed");
  std::vector<std::int32_t> mine = {rank()};
  std::vector<std::int32_t> all(static_cast<std::size_t>(size()));

  reversed->all_gather(compute(), tensor_of(mine), tensor_of(all));
  finish();

  EXPECT_EQ(reversed->name(), "reversed");
  EXPECT_EQ(reversed->rank(), size() - 1 - rank());
  for (int r = 0; r < size(); ++r)
    EXPECT_EQ(all[static_cast<std::size_t>(r)], size() - 1 - r);
}

TEST_F(CommunicatorTest, GroupsOfASplitWorkSideBySide) {
  const auto half = world().split(rank() % 2, rank(), "half");
  std::vector<std::int32_t> sum = {rank()};

  half->all_reduce(comm_stream(), tensor_of(sum), tensor_of(sum), ReduceOp::sum);
  world().barrier();
  finish();

  int expected = 0;
  for (int r = rank() % 2; r < size(); r += 2)
    expected += r;
  EXPECT_EQ(sum[0], expected);
}

TEST_F(CommunicatorTest, AMeshOfAllRanksHasWorkingGroups) {
  const bool even = size() % 2 == 0;
  const MeshShape shape{1, even ? size() / 2 : size(), even ? 2 : 1};
  const ProcessMesh mesh(world(), shape);
  std::vector<std::int32_t> in_data = {1};
  std::vector<std::int32_t> in_tensor = {rank()};

  mesh.data().all_reduce(comm_stream(), tensor_of(in_data), tensor_of(in_data), ReduceOp::sum);
  mesh.tensor().all_reduce(comm_stream(), tensor_of(in_tensor), tensor_of(in_tensor),
                           ReduceOp::sum);
  finish();

  EXPECT_EQ(in_data[0], shape.data);
  EXPECT_EQ(in_tensor[0], even ? rank() / 2 * 4 + 1 : rank());
  EXPECT_EQ(mesh.pipeline().size(), 1);
  EXPECT_EQ(mesh.data().name(), "data");
}

TEST_F(CommunicatorTest, TensorsThatDoNotFitAreRefusedBeforeAnythingIsSent) {
  std::vector<float> a(12);
  std::vector<float> b(13);
  std::vector<std::int32_t> c(12);

  const auto reduce = [&](const Tensor& in, const Tensor& out) {
    world().all_reduce(comm_stream(), in, out, ReduceOp::sum);
  };
  expect_error(
      ExitCode::internal, [&] { reduce(tensor_of(a), tensor_of(b)); }, "all_reduce", "world",
      "(12)", "(13)");
  expect_error(
      ExitCode::internal, [&] { reduce(tensor_of(a), tensor_of(c)); }, "f32", "i32");
  expect_error(
      ExitCode::internal, [&] { world().all_gather(comm_stream(), tensor_of(a), tensor_of(b)); },
      "all_gather");
  expect_error(
      ExitCode::internal, [&] { world().broadcast(comm_stream(), tensor_of(a), size()); },
      "no rank");
  expect_error(
      ExitCode::internal, [&] { world().all_to_all(comm_stream(), tensor_of(a), tensor_of(a)); },
      "all_to_all");
  finish();
}

TEST_F(CommunicatorTest, MisuseOfGroupsIsRefused) {
  std::vector<float> a(4);

  expect_error(
      ExitCode::internal, [&] { world().group_end(comm_stream()); }, "without group_begin");
  expect_error(
      ExitCode::internal, [&] { world().send(comm_stream(), tensor_of(a), rank()); },
      "to the own rank");
  world().group_begin();
  expect_error(
      ExitCode::internal, [&] { world().group_begin(); }, "inside a group");
  world().group_end(comm_stream());
  finish();
}

TEST_F(CommunicatorTest, TwoStreamsAtOnceAreRefused) {
  if (size() == 1) GTEST_SKIP() << "Single keeps no messages in flight";
  if (on_gpu()) GTEST_SKIP() << "NCCL does not tell";
  std::vector<float> awaited(4);
  std::vector<float> own(4);
  const auto done = device().make_event();

  if (rank() == 0) {
    world().recv(comm_stream(), tensor_of(awaited), 1);  // rank 1 sends after the barrier
    comm_stream().record(*done);
    // The stream that comes second fails, on either rank.
    std::optional<Error> error;
    while (!error) {
      error = test::error_of([&] {
        if (done->reached()) done->synchronize();
        world().group_begin();
        world().send(compute(), tensor_of(own), 0);
        world().recv(compute(), tensor_of(own), 0);
        world().group_end(compute());
      });
    }
    EXPECT_NE(std::string(error->what()).find("two streams"), std::string::npos) << error->what();
  }
  world().barrier();
  if (rank() == 1) world().send(comm_stream(), tensor_of(awaited), 0);
  static_cast<void>(test::error_of([&] { finish(); }));
}

TEST_F(CommunicatorTest, MessagesToOneselfPairUpWithinAGroup) {
  std::vector<std::int32_t> out = {1, 2, 3};
  std::vector<std::int32_t> in(3);

  world().group_begin();
  world().recv(comm_stream(), tensor_of(in), rank());
  world().send(comm_stream(), tensor_of(out), rank());
  world().group_end(comm_stream());
  finish();

  EXPECT_EQ(in, out);
}

TEST_F(CommunicatorTest, AMessageLongerThanItsReceiverFailsTheStream) {
  if (size() == 1) GTEST_SKIP() << "needs a peer";
  if (on_gpu()) GTEST_SKIP() << "NCCL leaves it undefined";
  std::vector<float> data(rank() == 0 ? 20 : 10);

  if (rank() == 0) world().send(comm_stream(), tensor_of(data), 1);
  if (rank() == 1) {
    world().recv(comm_stream(), tensor_of(data), 0);
    const char* const reason =
        test::over_tcp() ? "80 bytes does not fit a receive of 40" : "MPI_ERR_TRUNCATE";
    expect_error(
        ExitCode::communication, [&] { finish(); }, reason);
  } else {
    finish();
  }
}

}  // namespace
}  // namespace trireme
