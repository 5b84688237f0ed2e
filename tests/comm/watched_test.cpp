// SPDX-License-Identifier: Apache-2.0
// Watched groups that are not stuck; see stuck_rank.cpp for stuck ones. With one rank, Single.
#include "runtime/comm/watchdog/watched.h"

#include <filesystem>
#include <thread>

#include "runtime/comm/comm_label.h"
#include "tests/support/allocation_count.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

class Watched : public test::MpiTest {
 protected:
  [[nodiscard]] static std::unique_ptr<Communicator> mpi_world() { return test::mpi().world(); }
  [[nodiscard]] int next() const { return (rank() + 1) % size(); }
  [[nodiscard]] int previous() const { return (rank() + size() - 1) % size(); }
  test::TemporaryDirectory directory;
  WatchOptions options{.deadline_seconds = 20, .directory = directory.path()};
  std::unique_ptr<Communicator> watched = make_watched(mpi_world(), options);
  std::vector<float> data = std::vector<float>(12, 1.0F);
};

TEST_F(Watched, NoDeadlineGivesBackTheGroupItself) {
  auto inner = mpi_world();
  const Communicator* const address = inner.get();

  EXPECT_EQ(make_watched(std::move(inner), {}).get(), address);
}

TEST_F(Watched, ForwardsEveryCall) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<float> all(12 * ranks);
  std::vector<float> exchanged(12 * ranks);
  std::vector<std::int32_t> out = {rank()};
  std::vector<std::int32_t> in(1);

  for (Stream* const stream : {&compute(), &comm_stream()}) {
    data.assign(12, 1.0F);
    watched->all_reduce(*stream, tensor_of(data), tensor_of(data), ReduceOp::sum);
    watched->all_gather(*stream, tensor_of(data), tensor_of(all));
    watched->all_to_all(*stream, tensor_of(all), tensor_of(exchanged));
    watched->reduce_scatter(*stream, tensor_of(exchanged), tensor_of(data), ReduceOp::max);
    watched->broadcast(*stream, tensor_of(data), 0);
    watched->group_begin();
    watched->send(*stream, tensor_of(out), next());
    watched->recv(*stream, tensor_of(in), previous());
    watched->group_end(*stream);
    watched->group_begin();
    watched->group_end(*stream);
    stream->synchronize();
    watched->barrier();

    EXPECT_EQ(data, std::vector<float>(12, static_cast<float>(size())));
    EXPECT_EQ(in[0], previous());
  }

  EXPECT_EQ(watched->stats()[Verb::all_reduce].calls, 2U);
  EXPECT_EQ(watched->stats()[Verb::all_gather].calls, 2U);
  EXPECT_EQ(watched->stats()[Verb::recv].calls, 2U);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST_F(Watched, SplitsIntoWatchedGroupsThatMayOutliveIt) {
  const auto half = watched->split(rank() % 2, rank(), "half");
  watched.reset();

  half->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  comm_stream().synchronize();

  EXPECT_EQ(data[0], static_cast<float>(half->size()));
  EXPECT_EQ(half->name(), "half");
}

// A group that counts its calls.
class CountsSplits final : public Communicator {
 public:
  struct Asked {
    int splits = 0, siblings = 0;
  };
  CountsSplits(std::unique_ptr<Communicator> inner, std::shared_ptr<Asked> asked)
      : Communicator(inner->rank(), inner->size(), inner->name()),
        inner_(std::move(inner)),
        asked_(std::move(asked)) {}
  void barrier() override { inner_->barrier(); }
  [[nodiscard]] std::unique_ptr<Communicator> split(int color, int key, std::string name,
                                                    CommRole role) override {
    ++asked_->splits;
    return inner_->split(color, key, std::move(name), role);
  }
  [[nodiscard]] std::unique_ptr<Communicator> host_sibling(std::string name) override {
    ++asked_->siblings;
    return inner_->host_sibling(std::move(name));
  }

 protected:
  void submit(Stream& stream, const Call& call) override { inner_->issue(stream, call); }
  void submit_group_end(Stream& stream) override { inner_->group_end(stream); }

 private:
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<Asked> asked_;
};

// A split of a group on GPUs has a part there, which a group of the host has no use for.
TEST_F(Watched, AGroupOfTheHostIsTheInnerGroupsOwn) {
  if (size() == 1) GTEST_SKIP() << "nobody to watch";
  const auto asked = std::make_shared<CountsSplits::Asked>();
  const auto group = make_watched(std::make_unique<CountsSplits>(mpi_world(), asked), options);
  const int before = asked->siblings;

  const auto sibling = group->host_sibling("records");
  sibling->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  comm_stream().synchronize();

  EXPECT_EQ(asked->splits, 0);
  EXPECT_EQ(asked->siblings, before + 1);
  EXPECT_EQ(data[0], static_cast<float>(size()));
  EXPECT_EQ(sibling->name(), "records");
}

TEST_F(Watched, MayBeDestroyedWithCallsQueued) {
  for (int i = 0; i < 20; ++i)
    watched->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::max);
  watched.reset();
  comm_stream().synchronize();

  EXPECT_EQ(data[0], 1.0F);
}

TEST_F(Watched, ASteadyCallDoesNotAllocate) {
  if (test::over_tcp()) GTEST_SKIP() << "messages over TCP are kept in lists";
  std::vector<float> large(100'000, 1.0F);
  const auto step = [&](int number) {
    set_comm_step(number);
    const ScopedCommLabel label("bucket 3 (blocks.2.attention)");
    watched->all_reduce(comm_stream(), tensor_of(large), tensor_of(large), ReduceOp::max);
    watched->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::max);
    watched->group_begin();
    watched->send(comm_stream(), tensor_of(data), next());
    watched->recv(comm_stream(), tensor_of(data), previous());
    watched->group_end(comm_stream());
    comm_stream().synchronize();
  };
  step(0);

  const std::size_t before = test::allocations;
  for (int i = 1; i <= 50; ++i)
    step(i);
  const std::size_t after = test::allocations;

  EXPECT_EQ(after - before, 0U);
}

TEST_F(Watched, ARequestedDumpNamesTheCallsAndTheRunGoesOn) {
  if (size() == 1) GTEST_SKIP() << "nobody to wait for";
  set_comm_step(41);
  {
    const ScopedCommLabel label("the embedding");
    watched->all_reduce(comm_stream(), tensor_of(data), tensor_of(data), ReduceOp::sum);
  }
  comm_stream().synchronize();

  request_collectives_dump();
  const std::string file = fmt::format("{}/collectives.rank{}.txt", directory.path(), rank());
  std::string text;
  for (int i = 0; i < 200 && text.find("step 41") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    text = test::read_text(file);
  }
  watched->barrier();

  EXPECT_NE(text.find("all_reduce(f32, count 12, sum) number 1 \"the embedding\" of step 41"),
            std::string::npos)
      << text;
}

TEST_F(Watched, ADisagreementThatCheckedFindsNamesTensorAndStep) {
  if (size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  watched.reset();
  watched = make_watched(make_checked(mpi_world()), options);
  set_comm_step(8);
  const ScopedCommLabel label("bucket 5");
  const Tensor part = tensor_of(data).range(0, rank() == 1 ? 7 : 12);

  watched->all_reduce(comm_stream(), part, part, ReduceOp::sum);

  test::expect_error(
      ExitCode::communication, [&] { comm_stream().synchronize(); },
      "collective number 1 \"bucket 5\" of step 8: rank 0 calls all_reduce(f32, count 12, sum)",
      "rank 1 calls all_reduce(f32, count 7, sum)");
}

TEST_F(Watched, MisuseIsRefusedAsByTheGroupItself) {
  std::vector<float> other(13);

  test::expect_error(
      ExitCode::internal,
      [&] { watched->all_reduce(comm_stream(), tensor_of(data), tensor_of(other), ReduceOp::sum); },
      "all_reduce", "(12)", "(13)");
  test::expect_error(
      ExitCode::internal, [&] { watched->send(comm_stream(), tensor_of(data), rank()); },
      "to the own rank");
  test::expect_error(
      ExitCode::internal, [&] { watched->group_end(comm_stream()); }, "without group_begin");
}

}  // namespace
}  // namespace trireme
