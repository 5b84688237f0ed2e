// SPDX-License-Identifier: Apache-2.0
// Commands that read run directories with one irregular file: a pipe without a writer, an endless
// device, a directory, or a huge sparse file. Each ends within little memory, and works without
// that file or names it.
#include <gmock/gmock.h>

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/launch/fixture/run_fixture.h"
#include "tests/support/command.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

enum class Kind { pipe, device, directory, sparse };

void put(Kind kind, const fs::path& path) {
  fs::remove_all(path);
  if (kind == Kind::pipe) {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }
  if (kind == Kind::device) fs::create_symlink("/dev/zero", path);
  if (kind == Kind::directory) fs::create_directory(path);
  if (kind != Kind::sparse) return;
  write_file(path, "");
  fs::resize_file(path, std::uint64_t{1} << 36);
}

class IrregularFilesTest : public RunTest {
 protected:
  // Each command gets `whole` with every file replaced in turn, the kind of replacement varying
  // from file to file, or all kinds if TRIREME_TEST_ALL_KINDS is set; {0} is the directory.
  void expect_ends(const std::string& whole, const std::vector<std::string>& files,
                   const std::vector<std::string>& commands) {
    const bool all = std::getenv("TRIREME_TEST_ALL_KINDS") != nullptr;
    for (std::size_t file = 0; file < files.size(); ++file)
      for (std::size_t kind = 0; kind < kinds.size(); ++kind)
        for (std::size_t command = 0; command < commands.size(); ++command)
          if (all || (file + command) % kinds.size() == kind)
            expect_end(whole, files[file], kinds[kind], commands[command]);
  }

 private:
  void expect_end(const std::string& whole, const std::string& file, Kind kind,
                  const std::string& command) {
    const std::string copy = directory() + "/copy";
    fs::remove_all(copy);
    fs::copy(whole, copy, fs::copy_options::recursive);
    put(kind, copy + "/" + file);
    // The limit, not the machine's memory, stops a command that fills memory.
    const CommandResult result =
        run_command(fmt::format("cd {} && {} {} {} < /dev/null", directory(), memory_limit,
                                TRIREME_BINARY, fmt::format(fmt::runtime(command), copy)));
    const std::string what =
        fmt::format("{} as kind {}: {}\n{}", file, static_cast<int>(kind), command, result.output);
    EXPECT_LT(result.exit_code, 124) << what;
    EXPECT_TRUE(result.exit_code == 0 ||
                result.output.find(fs::path(file).filename()) != std::string::npos)
        << what;
  }

  static constexpr std::array kinds{Kind::pipe, Kind::device, Kind::directory, Kind::sparse};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr const char* memory_limit = "";  // they map terabytes
#else
  static constexpr const char* memory_limit = "ulimit -v 4000000 &&";
#endif
};

TEST_F(IrregularFilesTest, OfARunAreNamedOrSkipped) {
  const CommandResult trained =
      train_gpt("run", 1, {"checkpoint.every_steps=3", "checkpoint.keep=1", "telemetry.trace=4"});
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const std::string run = directory() + "/run";
  std::vector<std::string> files;
  std::set<std::string> seen;  // one of several equal ones
  for (const auto& entry : fs::recursive_directory_iterator(run)) {
    const std::string name = fs::relative(entry.path(), run);
    const bool alike = name.find(".kineto/") != std::string::npos;
    if (entry.is_regular_file() && (!alike || seen.insert(entry.path().parent_path()).second))
      files.push_back(name);
  }
  ASSERT_GT(files.size(), 15U);

  expect_ends(run, files,
              {"report {0}", "report --json {0}", "top --once {0}", "replay {0}",
               "checkpoint inspect --verify {0}", "checkpoint inspect {0}",
               "checkpoint export {0} --out {0}/exported", "eval {0}", "trace summary {0}",
               "replay {0} --step 5", "generate {0} --prompt oar --tokens 2",
               "train {0} --set run.directory={0} --set train.steps=7"});
}

TEST_F(IrregularFilesTest, OfARecordingAreNamed) {
  ASSERT_EQ(train_gpt("run", 1).exit_code, 0);
  const std::string replay = fmt::format("replay {}/run --step 2 --record ", directory());
  const CommandResult recorded = trireme(replay + directory() + "/recorded --values");
  ASSERT_EQ(recorded.exit_code, 0) << recorded.output;

  expect_ends(directory() + "/recorded", {"rank_0.jsonl", "rank_0.f32"},
              {replay + "{0}/again --values --against {0}"});
}

TEST_F(IrregularFilesTest, OfAStudyAreNamedOrRedone) {
  const std::string scale = fmt::format(
      "scale {}/gpt.yaml --ranks 1 --repeats 1 --steps 3 --warmup 1 --out ", data_directory());
  const CommandResult done = trireme(scale + directory() + "/study");
  ASSERT_EQ(done.exit_code, 0) << done.output;
  std::vector<std::string> files{"study.json"};
  for (const auto& entry : fs::directory_iterator(directory() + "/study/runs")) {
    const std::string run = "runs/" + entry.path().filename().string();
    files.insert(files.end(), {run + "/result.json", run + "/run/environment.json"});
  }

  expect_ends(directory() + "/study", files, {scale + "{0} --resume"});
}

TEST_F(IrregularFilesTest, ControlCharactersAreEscaped) {
  ASSERT_EQ(train_gpt("run", 1).exit_code, 0);
  const std::string run = directory() + "/run", name =
                                                    "a\x1b[31m\xc2\x9b"
                                                    "31m";
  fs::rename(run, directory() + "/" + name);

  for (const char* const command : {"report", "report --json", "replay", "top --once", "top --json",
                                    "checkpoint inspect", "eval"}) {
    const CommandResult result =
        trireme(fmt::format("{} '{}/{}' 2>&1", command, directory(), name));
    EXPECT_THAT(result.output, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b"))))
        << command;
  }
  EXPECT_THAT(trireme(fmt::format("report --json '{}/{}'", directory(), name)).output,
              HasSubstr("a\\u001b[31m\\u009b31m"));
}

}  // namespace
}  // namespace trireme::test
