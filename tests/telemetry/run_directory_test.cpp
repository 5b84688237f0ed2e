// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_directory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using test::expect_error;
using test::read_text;
using test::TemporaryDirectory;
using test::write_text;

TEST(RunDirectory, IsCreatedWithItsParents) {
  const TemporaryDirectory place;

  const RunDirectory run(place.file("a/b/run/"));

  EXPECT_EQ(run.path(), place.file("a/b/run"));
  EXPECT_TRUE(std::filesystem::is_empty(run.path()));
}

TEST(RunDirectory, AcceptsAnEmptyOrForeignDirectory) {
  const TemporaryDirectory place;
  write_text(place.file("notes.txt"), "mine");

  const RunDirectory run(place.path());
  run.write_config("run: {}\n");

  EXPECT_EQ(read_text(run.config_path()), "run: {}\n");
  EXPECT_EQ(read_text(place.file("notes.txt")), "mine");
}

TEST(RunDirectory, RefusesADirectoryThatHoldsARun) {
  for (const char* const name : {"config.yaml", "metrics.jsonl"}) {
    const TemporaryDirectory place;
    write_text(place.file(name), "");

    expect_error(
        ExitCode::config, [&] { RunDirectory run(place.path()); }, place.path(), name,
        "choose another run.directory or remove");
  }
}

TEST(RunDirectory, RefusesAPlaceThatIsAFile) {
  const TemporaryDirectory place;
  write_text(place.file("file"), "");

  for (const char* const name : {"file", "file/below"}) {
    expect_error(
        ExitCode::config, [&] { RunDirectory run(place.file(name)); }, place.file(name),
        "run.directory");
  }
  expect_error(
      ExitCode::config, [] { RunDirectory run(""); }, "empty");
}

TEST(RunDirectory, RefusesAPlaceThatCannotBeWrittenTo) {
  // /proc refuses everybody, root included.
  expect_error(
      ExitCode::config, [] { RunDirectory run("/proc/trireme/run"); }, "/proc/trireme/run",
      "cannot be created", "choose another place");
  expect_error(
      ExitCode::config, [] { RunDirectory run("/proc"); }, "/proc", "cannot be written to",
      "choose another place");
}

TEST(RunDirectory, DescribesItsEnvironment) {
  const TemporaryDirectory place;
  const RunDirectory run(place.file("run"));
  ::setenv("TRIREME_TEST_VARIABLE", "\xff odd", 1);
  ::setenv("SLURM_JWT", "secret", 1);

  run.write_environment({.ranks = 2,
                         .hosts = {"n1", "n2"},
                         .libraries = {{"Open MPI", "4.1.4"}},
                         .command_line = {"trireme", "train", "a b.yaml"}});

  const std::string text = read_text(place.file("run/environment.json"));
  const auto document = nlohmann::json::parse(text);
  EXPECT_EQ(document["ranks"], 2);
  EXPECT_EQ(document["hosts"], (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(document["libraries"]["Open MPI"], "4.1.4");
  EXPECT_EQ(document["command_line"][2], "a b.yaml");
  EXPECT_GT(document["cpu"]["cores_online"], 0);
  EXPECT_GT(document["memory_bytes"], 1 << 20);
  EXPECT_TRUE(document["variables"].contains("TRIREME_TEST_VARIABLE"));
  EXPECT_EQ(text.find("secret"), std::string::npos);
  for (const char* const key : {"version", "revision", "compiler", "build_type", "start_time"}) {
    EXPECT_FALSE(document[key].get<std::string>().empty()) << key;
  }
}

TEST(Environment, PeakMemoryCoversWhatWasTouched) {
  std::vector<char> block(64 << 20, 1);

  EXPECT_GE(peak_resident_bytes(), block.size());
}

}  // namespace
}  // namespace trireme
