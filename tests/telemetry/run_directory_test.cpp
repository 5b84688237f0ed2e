// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/run_directory.h"
#include "runtime/telemetry/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/telemetry/secrets.h"
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
        "choose another run.directory, or start from scratch in this one with --overwrite");
  }
}

TEST(RunDirectory, FollowsNoLinkInPlaceOfAFile) {
  const TemporaryDirectory place;
  write_text(place.file("precious"), "mine");
  for (const char* const name : {".writable", "config.yaml.tmp", "config.user.yaml.tmp"})
    std::filesystem::create_symlink(place.file("precious"), place.file(name));

  const RunDirectory run(place.path());
  run.write_config("run: {}\n");
  run.write_user_config("run: {}\n");

  EXPECT_EQ(read_text(place.file("precious")), "mine");
  EXPECT_EQ(read_text(run.config_path()), "run: {}\n");
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
  ::setenv("TRIREME_INTERFACE", "\xff odd", 1);
  ::setenv("TRIREME_TEST_VARIABLE", "not on the list", 1);

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
  EXPECT_TRUE(document["variables"].contains("TRIREME_INTERFACE"));
  EXPECT_FALSE(document["variables"].contains("TRIREME_TEST_VARIABLE"));
  for (const char* const key : {"version", "revision", "compiler", "build_type", "start_time"}) {
    EXPECT_FALSE(document[key].get<std::string>().empty()) << key;
  }
}

TEST(Environment, NoSecretOfTheEnvironmentIsWritten) {
  const TemporaryDirectory place;
  const RunDirectory run(place.file("run"));
  for (const char* const name :
       {"SLURM_PASSWD", "OMPI_CREDENTIAL", "TRIREME_AUTH", "DNNL_PASSPHRASE", "SLURM_COOKIE",
        "SLURM_JWT", "OMPI_MCA_btl_tcp_token", "OMPI_MCA_orte_precondition_transports"})
    ::setenv(name, "hunter2", 1);
  ::setenv("OMPI_MCA_plm_rsh_agent", "sshpass -p hunter2 ssh", 1);
  ::setenv("MASTER_ADDR", "http://me:hunter2@node1", 1);

  run.write_environment(
      {.hosts = {"n1"},
       .libraries = {},
       .command_line = {"trireme", "train", "https://me:hunter/2@host/a.yaml?sig=hunter2&x=1",
                        "--token", "hunter2", "--password=hunter2", "sshpass", "-p", "hunter2",
                        "sshpass -phunter2 ssh me:hunter2@host:/x", "sshpass -p hunter2 ssh",
                        "--header", "Authorization: hunter2", "--set", "train.steps=5"}});

  const std::string text = read_text(place.file("run/environment.json"));
  EXPECT_EQ(text.find("hunter"), std::string::npos) << text;
  const auto words = nlohmann::json::parse(text)["command_line"];
  EXPECT_EQ(words[2], "https://***@host/a.yaml?***");
  EXPECT_EQ(words.back(), "train.steps=5");
}

TEST(Environment, ProgramsOfOneRevisionWithOtherChangesDiffer) {
  const TemporaryDirectory place;
  std::string program(3 << 20, 'x');
  write_text(place.file("a"), program);
  program.back() = 'y';
  write_text(place.file("b"), program);

  for (const char* const revision : {"v1.0-3-g0123456789ab-dirty", "no git revision"}) {
    const std::string a = changes_of(revision, place.file("a"));
    EXPECT_NE(a, changes_of(revision, place.file("b"))) << revision;
    EXPECT_EQ(a, changes_of(revision, place.file("a"))) << revision;
  }
  EXPECT_EQ(changes_of("v1.0-3-g0123456789ab", place.file("a")), "");
}

TEST(Environment, OtherValuesStayReadable) {
  for (const char* const word :
       {"configs/gpt_tiny.yaml", "run.directory=/data/tokens/a b", "user@host", "a:b",
        "https://host/x", "OMPI=1", "--set", "lr_schedule={name: cosine, warmup_steps: 5}"})
    EXPECT_EQ(without_secrets(word), word);
  EXPECT_TRUE(may_be_recorded("OMPI_MCA_btl_tcp_if_include"));
  EXPECT_TRUE(may_be_recorded("OMP_NUM_THREADS"));
  EXPECT_FALSE(may_be_recorded("OMP_NUM_THREADS_"));
  EXPECT_FALSE(may_be_recorded("HOME"));
}

TEST(Environment, PeakMemoryCoversTouchedMemory) {
  std::vector<char> block(64 << 20, 1);

  EXPECT_GE(peak_resident_bytes(), block.size());
}

}  // namespace
}  // namespace trireme
