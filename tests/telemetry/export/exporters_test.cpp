// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/exporters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

using test::expect_error;
using test::sample_evaluation;
using test::sample_facts;
using test::sample_step;
using test::TemporaryDirectory;
using testing::HasSubstr;

// Simulates a full disk: writes beyond `bytes` of a file fail.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    static_cast<void>(std::signal(SIGXFSZ, handler_));
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

std::uintmax_t bytes_in(const std::string& directory) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

TEST(Exporters, WriteOnlyRequestedFiles) {
  const TemporaryDirectory directory;
  Exporters exporters({}, sample_facts(directory.path()));

  exporters.step(sample_step());
  exporters.evaluation(sample_evaluation());
  exporters.finish(RunEnd::done);

  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(Exporters, FailedStartsNameTheirKey) {
  const TemporaryDirectory directory;
  const ExportFacts facts = sample_facts(directory.file("gone"));

  expect_error(
      ExitCode::config, [&] { const Exporters none({.tensorboard = true}, facts); },
      "telemetry.tensorboard: ", "set telemetry.tensorboard to false");
}

TEST(Exporters, AFullDiskStopsOneAndItsFileEndsWithAFlush) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  facts.flush_every = {};
  Exporters exporters({.tensorboard = true}, facts);
  exporters.step(sample_step(1));
  const auto before = bytes_in(directory.path());

  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  {
    const FileSizeLimit limit(before + 100);
    exporters.step(sample_step(2));
    exporters.step(sample_step(3));
    exporters.finish(RunEnd::done);
  }
  const std::string said =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();

  EXPECT_EQ(bytes_in(directory.path()), before);
  EXPECT_THAT(said, HasSubstr("telemetry.tensorboard: " + directory.path()));
  EXPECT_THAT(said, HasSubstr("the run continues without it"));
}

}  // namespace
}  // namespace trireme
