// SPDX-License-Identifier: Apache-2.0
// The main function of tests under mpirun (or alone, as a world of one). Rank 0 prints GoogleTest's
// report; failures of every rank are printed as "[Rank i/N] ...". After each test the ranks agree
// on its verdict; a rank that misses the deadline took another path, and the job ends. All ranks
// have the same exit code.
#include <gtest/gtest.h>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/comm/host/reduce.h"
#include "runtime/comm/host/transfers.h"
#include "runtime/comm/mpi.h"
#include "runtime/device/gpu_facts.h"
#include "tests/support/mpi_test.h"

namespace trireme::test {
namespace {

constexpr std::chrono::seconds agreement_deadline{30};
const MpiEnvironment* environment = nullptr;

// The largest value of all ranks.
int agree(int value, Transfers& transfers) {
  std::vector<int> values(static_cast<std::size_t>(transfers.size()), value);
  for (int rank = 0; rank < transfers.size(); ++rank) {
    if (rank == transfers.rank()) continue;
    transfers.send(reinterpret_cast<const std::byte*>(&value), sizeof(value), rank,
                   MessageTag::user);
    transfers.receive(reinterpret_cast<std::byte*>(&values[static_cast<std::size_t>(rank)]),
                      sizeof(value), rank, MessageTag::user);
  }
  transfers.wait_all();
  return *std::ranges::max_element(values);
}

// With plain MPI if available, since the communicators are under test.
int agree(int value, MPI_Comm comm) {
  if (environment->size() == 1) return value;
  if (comm == MPI_COMM_NULL) {
    static const auto transfers = make_job_transfers();
    return agree(value, *transfers);
  }
  int largest = value;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&value, &largest, 1, MPI_INT, MPI_MAX, comm, &request);
  const auto give_up = std::chrono::steady_clock::now() + agreement_deadline;
  for (int done = 0;;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done != 0) return largest;
    if (std::chrono::steady_clock::now() > give_up) {
      std::fprintf(stderr, "[Rank %d/%d] the other ranks did not finish this test\n",
                   environment->rank(), environment->size());
      abort_job(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

class RankListener : public testing::EmptyTestEventListener {
 public:
  explicit RankListener(MPI_Comm comm) : comm_(comm) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.passed()) return;
    std::fprintf(stderr, "[Rank %d/%d] %s:%d: %s\n", environment->rank(), environment->size(),
                 result.file_name() == nullptr ? "?" : result.file_name(), result.line_number(),
                 result.message());
    std::fflush(stderr);
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    const bool failed = info.result()->Failed();
    if (agree(failed ? 1 : 0, comm_) != 0 && !failed && environment->rank() == 0) {
      std::fprintf(stderr, "[Rank 0/%d] %s.%s failed on another rank\n", environment->size(),
                   info.test_suite_name(), info.name());
    }
  }

 private:
  MPI_Comm comm_;
};

int run_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Comm comm = MPI_COMM_NULL;
  int mpi_is_up = 0;
  MPI_Initialized(&mpi_is_up);
  if (environment->size() > 1 && mpi_is_up != 0) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (environment->rank() != 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankListener(comm));  // GoogleTest owns it
  const int verdict = agree(RUN_ALL_TESTS(), comm);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
  return verdict;
}

}  // namespace

const MpiEnvironment& mpi() {
  return *environment;
}

void sum_blocks_on_host(Stream& stream, const Tensor& out, const Tensor& blocks,
                        std::int64_t doubled) {
  std::vector<std::byte> input(blocks.bytes()), sum(out.bytes());
  download(stream, input.data(), blocks.data, blocks.bytes());
  std::vector<const std::byte*> parts;
  for (std::int64_t i = 0; i < blocks.shape[0]; ++i)
    parts.push_back(input.data() + static_cast<std::size_t>(i) * out.bytes());
  reduce_tree(out.dtype, ReduceOp::sum, parts, sum.data(), out.count(),
              static_cast<std::size_t>(doubled));
  upload(stream, out.data, sum.data(), sum.size());
}

}  // namespace trireme::test

namespace trireme {
// Of data/hdf5/child.h, in tests that link it.
[[gnu::weak]] void serve_hdf5_child(int argc, char** argv);
}  // namespace trireme

int main(int argc, char** argv) {
  if (trireme::serve_hdf5_child != nullptr) trireme::serve_hdf5_child(argc, argv);
  static_cast<void>(trireme::prepare_gpu_environment());
  try {
    const trireme::MpiEnvironment environment(&argc, &argv);
    trireme::set_process_label(environment.rank(), environment.size());
    trireme::log::initialize(environment.rank());
    trireme::test::environment = &environment;
    if (trireme::test::device_under_test() == trireme::DeviceType::cuda) {
      try {
        static_cast<void>(trireme::test::make_device_under_test());
      } catch (const trireme::Error& error) {
        std::printf("skipped: %s\n", error.what());
        return trireme::test::skipped;
      }
    }
    return trireme::test::run_tests(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "[%s] %s\n", trireme::process_label().c_str(), error.what());
    trireme::abort_job(1);
  }
}
