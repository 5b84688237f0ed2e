// SPDX-License-Identifier: Apache-2.0
// Every collective against a plain reference, for every dtype, in place and not, at odd counts.
// With one rank the suite tests Single.
#include <algorithm>
#include <functional>

#include "tests/comm/values.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

using test::filled;
using test::value_of;
using test::Values;

// Zero, one, fewer than ranks, odd, beyond the limit of small reductions.
constexpr std::int64_t counts[] = {0, 1, 2, 3, 17, 1000, 5003};

struct Case {
  DType dtype;
  bool in_place;
};

class Collectives : public test::MpiTest, public testing::WithParamInterface<Case> {
 protected:
  [[nodiscard]] static DType dtype() { return GetParam().dtype; }
  [[nodiscard]] bool cannot_reduce() const {
    return on_gpu() && size() > 1 && dtype() == DType::u16;
  }
  [[nodiscard]] static bool in_place() { return GetParam().in_place; }

  [[nodiscard]] int reference(ReduceOp op, std::int64_t index) const {
    int result = value_of(0, index);
    for (int r = 1; r < size(); ++r) {
      const int next = value_of(r, index);
      result = op == ReduceOp::sum   ? result + next
               : op == ReduceOp::max ? std::max(result, next)
                                     : std::min(result, next);
    }
    return result;
  }
  static void expect_values(const Values& got, const std::function<int(std::int64_t)>& expected) {
    std::vector<int> want;
    for (std::int64_t i = 0; i < got.count(); ++i)
      want.push_back(expected(i));
    EXPECT_EQ(got.all(), want);
    EXPECT_TRUE(got.guards_intact());
  }
};

TEST_P(Collectives, AllReduceCombinesAllRanks) {
  if (cannot_reduce()) GTEST_SKIP() << "NCCL cannot reduce u16";
  for (const std::int64_t count : counts) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
      Values in = filled(dtype(), count, rank());
      Values separate(dtype(), count);
      Values& out = in_place() ? in : separate;

      world().all_reduce(comm_stream(), in.tensor(mirrors()), out.tensor(mirrors()), op);
      finish();

      expect_values(out, [&](std::int64_t i) { return reference(op, i); });
      if (!in_place()) expect_values(in, [&](std::int64_t i) { return value_of(rank(), i); });
    }
  }
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsSlice) {
  if (cannot_reduce()) GTEST_SKIP() << "NCCL cannot reduce u16";
  for (const std::int64_t count : counts) {
    Values in = filled(dtype(), count * size(), rank());
    Values separate(dtype(), count);
    const std::int64_t first = count * rank();
    const Tensor out =
        in_place() ? in.tensor(mirrors()).range(first, count) : separate.tensor(mirrors());

    world().reduce_scatter(comm_stream(), in.tensor(mirrors()), out, ReduceOp::sum);
    finish();

    for (std::int64_t i = 0; i < count; ++i) {
      const int got = in_place() ? in.get(first + i) : separate.get(i);
      ASSERT_EQ(got, reference(ReduceOp::sum, first + i)) << "count " << count << " index " << i;
    }
    EXPECT_TRUE(in.guards_intact() && separate.guards_intact());
  }
}

TEST_P(Collectives, ReduceScatterMayPutItsSliceAtTheStartOfItsInput) {
  if (cannot_reduce()) GTEST_SKIP() << "NCCL cannot reduce u16";
  for (const std::int64_t count : counts) {
    Values in = filled(dtype(), count * size(), rank());

    world().reduce_scatter(comm_stream(), in.tensor(mirrors()),
                           in.tensor(mirrors()).range(0, count), ReduceOp::sum);
    finish();

    for (std::int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(in.get(i), reference(ReduceOp::sum, count * rank() + i));
    }
  }
}

TEST_P(Collectives, AllGatherPutsTheRanksOneAfterAnother) {
  for (const std::int64_t count : counts) {
    Values out(dtype(), count * size());
    Values separate = filled(dtype(), count, rank());
    const std::int64_t own = count * rank();
    for (std::int64_t i = 0; in_place() && i < count; ++i)
      out.set(own + i, value_of(rank(), i));
    const Tensor in =
        in_place() ? out.tensor(mirrors()).range(own, count) : separate.tensor(mirrors());

    world().all_gather(comm_stream(), in, out.tensor(mirrors()));
    finish();

    expect_values(out,
                  [&](std::int64_t i) { return value_of(static_cast<int>(i / count), i % count); });
  }
}

TEST_P(Collectives, AllGatherMayTakeItsInputFromTheStartOfItsOutput) {
  for (const std::int64_t count : counts) {
    Values out(dtype(), count * size());
    for (std::int64_t i = 0; i < count; ++i)
      out.set(i, value_of(rank(), i));

    world().all_gather(comm_stream(), out.tensor(mirrors()).range(0, count), out.tensor(mirrors()));
    finish();

    expect_values(out,
                  [&](std::int64_t i) { return value_of(static_cast<int>(i / count), i % count); });
  }
}

TEST_P(Collectives, AllToAllTransposesSlices) {
  if (in_place()) GTEST_SKIP() << "all_to_all has no in-place form";
  for (const std::int64_t count : counts) {
    Values in = filled(dtype(), count * size(), rank());
    Values out(dtype(), count * size());

    world().all_to_all(comm_stream(), in.tensor(mirrors()), out.tensor(mirrors()));
    finish();

    expect_values(out, [&](std::int64_t i) {
      return value_of(static_cast<int>(i / count), count * rank() + i % count);
    });
  }
}

TEST_P(Collectives, BroadcastReachesAllFromAnyRoot) {
  for (const std::int64_t count : counts) {
    for (int root = 0; root < size(); ++root) {
      Values data = filled(dtype(), count, rank());

      world().broadcast(comm_stream(), data.tensor(mirrors()), root);
      finish();

      expect_values(data, [&](std::int64_t i) { return value_of(root, i); });
    }
  }
}

TEST_P(Collectives, MessagesArriveInOrder) {
  if (size() == 1) GTEST_SKIP() << "needs a peer";
  for (const std::int64_t count : counts) {
    Values first = filled(dtype(), count, 10);
    Values second = filled(dtype(), count, 20);
    if (rank() == 0) {
      world().send(comm_stream(), first.tensor(mirrors()), 1);
      world().send(comm_stream(), second.tensor(mirrors()), 1);
    } else if (rank() == 1) {
      Values got_first(dtype(), count);
      Values got_second(dtype(), count);
      world().recv(comm_stream(), got_first.tensor(mirrors()), 0);
      world().recv(comm_stream(), got_second.tensor(mirrors()), 0);
      finish();
      EXPECT_EQ(got_first.all(), first.all());
      EXPECT_EQ(got_second.all(), second.all());
    }
    finish();
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : test::all_dtypes) {
    for (const bool in_place : {false, true})
      all.push_back({dtype, in_place});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Collectives, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(name_of(info.param.dtype)) + (info.param.in_place ? "_in_place" : "");
});

}  // namespace
}  // namespace trireme
