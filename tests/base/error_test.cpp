// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

template <typename Action>
Error raised_by(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::ok, "nothing was raised"};
}

TEST(Error, FailCarriesTheCodeAndTheFormattedMessageAlone) {
  const Error error =
      raised_by([] { fail(ExitCode::data, "{}: {} labels, expected {}", "a.h5", 3, 4); });

  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_STREQ(error.what(), "a.h5: 3 labels, expected 4");
}

TEST(Error, LibraryFailureNamesThePlaceTheCallAndTheReason) {
  const Error error = raised_by([] {
    library_failed("MPI_Allreduce(...)", "MPI_ERR_COMM (invalid)", ExitCode::communication);
  });

  EXPECT_EQ(error.code(), ExitCode::communication);
  EXPECT_THAT(
      error.what(),
      MatchesRegex("tests/base/error_test\\.cpp:[0-9]+: MPI_Allreduce\\(\\.\\.\\.\\) failed: "
                   "MPI_ERR_COMM \\(invalid\\)"));
}

TEST(Error, SystemFailureNamesTheSubjectAndErrno) {
  const Error error = raised_by([] {
    errno = ENOSPC;
    system_failed("write", "/runs/metrics.jsonl");
  });

  EXPECT_EQ(error.code(), ExitCode::internal);
  EXPECT_THAT(error.what(), StartsWith("tests/base/error_test.cpp:"));
  EXPECT_THAT(error.what(),
              HasSubstr("write(/runs/metrics.jsonl) failed: ENOSPC (No space left on device)"));
}

TEST(Error, SystemFailureToleratesAnUnknownErrno) {
  const Error error = raised_by([] {
    errno = 123456;
    system_failed("read", "a");
  });

  EXPECT_THAT(error.what(), HasSubstr("read(a) failed: errno ("));
}

TEST(Error, BrokenExpectationNamesTheConditionAndTheValues) {
  const int rows = 3;

  const Error error = raised_by([&] { TRIREME_EXPECTS(rows == 4, "{} rows arrived", rows); });

  EXPECT_EQ(error.code(), ExitCode::internal);
  EXPECT_THAT(error.what(), StartsWith("tests/base/error_test.cpp:"));
  EXPECT_THAT(error.what(), HasSubstr("expected rows == 4: 3 rows arrived"));
}

TEST(Error, MetExpectationEvaluatesItsConditionOnceAndNoMessage) {
  int evaluations = 0;
  int messages = 0;

  TRIREME_EXPECTS(++evaluations == 1, "{}", ++messages);

  EXPECT_EQ(evaluations, 1);
  EXPECT_EQ(messages, 0);
}

TEST(Error, ContextIsPutInFrontAndTheCodeKept) {
  const Error error = raised_by([] {
    with_context("data/train",
                 [] { with_context("shard_3.h5", [] { fail(ExitCode::data, "truncated"); }); });
  });

  EXPECT_EQ(error.code(), ExitCode::data);
  EXPECT_STREQ(error.what(), "data/train: shard_3.h5: truncated");
}

TEST(Error, ContextHandsTheResultThrough) {
  int value = 7;

  int& same = with_context("unused", [&]() -> int& { return value; });

  EXPECT_EQ(&same, &value);
}

TEST(Error, ContextLeavesOtherExceptionsAlone) {
  EXPECT_THROW(with_context("unused", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(Error, ExitCodesAreTheDocumentedNumbers) {
  EXPECT_EQ(static_cast<int>(ExitCode::ok), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::internal), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::config), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::data), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::checkpoint), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::communication), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::non_finite), 6);
  EXPECT_EQ(static_cast<int>(ExitCode::requeue), 75);
}

TEST(ProcessLabel, NamesRankSizeAndHost) {
  set_process_label(3, 8);

  EXPECT_THAT(process_label(), MatchesRegex("rank 3/8 .+"));

  set_process_label(0, 1);
}

}  // namespace
}  // namespace trireme
