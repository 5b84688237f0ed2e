// SPDX-License-Identifier: Apache-2.0
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"

namespace trireme {
namespace {

class Checked : public test::MpiTest {
 protected:
  void SetUp() override { checked = make_checked(test::make_world(device())); }
  // Raised by the stream on the CPU, by the call itself on a GPU.
  template <typename Action>
  void expect_disagreement(Action call, const std::string& call_of_0,
                           const std::string& call_of_1) {
    test::expect_error(
        ExitCode::communication,
        [&] {
          call();
          finish();
        },
        "group world disagree", "rank 0 calls " + call_of_0, "rank 1 calls " + call_of_1);
  }
  std::unique_ptr<Communicator> checked;
  std::vector<float> data = std::vector<float>(12, 1.0F);
  std::vector<std::int32_t> whole_numbers = std::vector<std::int32_t>(12, 1);
};

TEST_F(Checked, LetsAgreeingRanksThrough) {
  std::vector<float> all(12 * static_cast<std::size_t>(size()));

  checked->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  checked->all_gather(comm_stream(), tensor_of(data), tensor_of(all));
  checked->reduce_scatter(comm_stream(), tensor_of(all), tensor_of(data), ReduceOp::max);
  checked->broadcast(comm_stream(), tensor_of(data), 0);
  checked->barrier();
  finish();

  EXPECT_EQ(data, std::vector<float>(12, static_cast<float>(size())));
  EXPECT_EQ(checked->stats()[Verb::all_reduce].calls, 1U);
  EXPECT_EQ(checked->stats()[Verb::all_gather].calls, 1U);
}

TEST_F(Checked, LetsAgreeingGroupsThrough) {
  std::vector<std::int32_t> in(12);

  checked->group_begin();
  checked->send(comm_stream(), tensor_of(whole_numbers), (rank() + 1) % size());
  checked->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  checked->recv(comm_stream(), tensor_of(in), (rank() + size() - 1) % size());
  checked->group_end(comm_stream());
  finish();

  EXPECT_EQ(in, whole_numbers);
  EXPECT_EQ(data[0], static_cast<float>(size()));
}

TEST_F(Checked, SplitsIntoCheckedGroups) {
  const auto half = checked->split(rank() % 2, rank(), "half");

  half->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  finish();

  EXPECT_EQ(data[0], static_cast<float>(half->size()));
  EXPECT_EQ(half->name(), "half");
}

TEST_F(Checked, NamesBothRanksWhenTheirCallsDiffer) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::vector<float> all(12 * static_cast<std::size_t>(size()));

  checked->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);

  expect_disagreement(
      [&] {
        if (rank() == 1) {
          checked->all_gather(comm_stream(), tensor_of(data), tensor_of(all));
        } else {
          checked->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
        }
      },
      "all_reduce(f32, count 12, sum)",
      "all_gather(f32, count " + std::to_string(12 * size()) + ")");
}

TEST_F(Checked, NamesBothRanksWhenCountsDtypesOpsOrRootsDiffer) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const bool odd = rank() == 1;
  const Tensor full = tensor_of(data);
  const Tensor part = full.range(0, odd ? 7 : 12);
  const Tensor other = odd ? tensor_of(whole_numbers) : full;

  expect_disagreement([&] { checked->all_reduce(comm_stream(), part, part, ReduceOp::sum); },
                      "all_reduce(f32, count 12, sum)", "all_reduce(f32, count 7, sum)");

  const auto again = [&](const auto& call) {
    const auto fresh = make_checked(test::make_world(device()));
    const auto stream = device().make_stream(StreamKind::comm);
    const auto error = test::error_of([&] {
      call(*fresh, *stream);
      stream->synchronize();
    });
    return error ? std::string(error->what()) : "no error";
  };
  const std::string by_dtype = again([&](Communicator& comm, Stream& stream) {
    comm.all_reduce(stream, other, other, ReduceOp::sum);
  });
  EXPECT_NE(by_dtype.find("rank 1 calls all_reduce(i32, count 12, sum)"), std::string::npos);
  const std::string by_op = again([&](Communicator& comm, Stream& stream) {
    comm.all_reduce(stream, full, full, odd ? ReduceOp::max : ReduceOp::sum);
  });
  EXPECT_NE(by_op.find("rank 1 calls all_reduce(f32, count 12, max)"), std::string::npos);
  const std::string by_tree = again([&](Communicator& comm, Stream& stream) {
    comm.set_doubled(odd ? 1 : 0);
    comm.all_reduce(stream, full, full, ReduceOp::sum);
  });
  EXPECT_NE(by_tree.find("rank 1 calls all_reduce(f32, count 12, sum, 1 doubled)"),
            std::string::npos);
  const std::string by_root =
      again([&](Communicator& comm, Stream& stream) { comm.broadcast(stream, full, odd ? 1 : 0); });
  EXPECT_NE(by_root.find("rank 1 calls broadcast(f32, count 12, root 1)"), std::string::npos);
}

TEST_F(Checked, NamesBothEndsOfAMessageThatDoesNotFit) {
  if (size() == 1) GTEST_SKIP() << "needs a peer";
  if (on_gpu()) GTEST_SKIP() << "the sender would wait for ever";
  const Tensor full = tensor_of(data);

  // Shorter than expected: MPI alone would let it pass.
  if (rank() == 0) checked->send(comm_stream(), full.range(0, 5), 1);
  if (rank() == 1) {
    checked->recv(comm_stream(), full, 0);
    test::expect_error(
        ExitCode::communication, [&] { comm_stream().synchronize(); },
        "rank 0 calls send(f32, count 5, to 1)", "rank 1 calls recv(f32, count 12, from 0)");
  } else {
    comm_stream().synchronize();
  }
}

TEST_F(Checked, NamesBothRanksWhenOneSplitsAndTheOtherWaits) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";

  test::expect_error(
      ExitCode::communication,
      [&] {
        if (rank() == 1) {
          static_cast<void>(checked->split(0, 0, "part"));
        } else {
          checked->barrier();
        }
      },
      "rank 0 calls barrier()", "rank 1 calls split()");
}

}  // namespace
}  // namespace trireme
