// SPDX-License-Identifier: Apache-2.0
// Lines of metrics.jsonl, ends of files, and the small files of a run.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>

#include "launch/run/file_tail.h"
#include "launch/run/metrics_line.h"
#include "launch/run/run_files.h"
#include "tests/launch/top/run_files.h"

namespace trireme::runs {
namespace {

using test::RunFiles;
using test::TemporaryDirectory;
using test::write_text;
using testing::ElementsAre;
using Kind = MetricsLine::Kind;

TEST(MetricsLine, EveryKindIsRead) {
  MetricsLine line;
  EXPECT_EQ(line.parse(RunFiles::step_line(7, 1.25)), Kind::step);
  EXPECT_EQ(line.step(), 7);
  EXPECT_EQ(line.number("loss"), 1.25);
  EXPECT_NEAR(line.number("tokens_per_s"), 40960, 1e-6);
  EXPECT_EQ(line.number("joules", -1), -1);
  EXPECT_EQ(line.find("joules"), nullptr);

  EXPECT_EQ(line.parse(format_json(
                EvaluationMetrics{.step = 9,
                                  .validation_loss = 0.5,
                                  .quality = {.accuracy = 0.9},
                                  .sources = {{"books", 0.25, {}}},
                                  .time = std::chrono::sys_days(std::chrono::year(1970) / 1 / 2)})),
            Kind::evaluation);
  EXPECT_EQ(line.number("accuracy"), 0.9);
  EXPECT_EQ(line.find("loss"), nullptr);
  EXPECT_THAT(line.sources(), ElementsAre(std::pair("books", 0.25)));
  EXPECT_EQ(line.timestamp(), "1970-01-02T00:00:00.000Z");

  EXPECT_EQ(line.parse(format_json(FailedSave{.step = 4, .problem = "disk full", .in_a_row = 2})),
            Kind::failed_save);
  EXPECT_EQ(line.text("checkpoint_failed"), "disk full");
  EXPECT_EQ(line.text("failed_saves"), "2");
  EXPECT_TRUE(line.sources().empty());
  EXPECT_EQ(line.parse(format_json(SkippedBatch{.step = 4, .zscore = 9, .samples = {1}})),
            Kind::skipped);
  EXPECT_EQ(line.text("deviations"), "9.0");
  EXPECT_EQ(line.text("samples"), "[1]");
  EXPECT_EQ(line.parse(R"({"step":3,"warning":"slow_data","text":"a.h5 is slow"})"), Kind::warning);
  EXPECT_EQ(line.text("text"), "a.h5 is slow");
  EXPECT_EQ(line.text("nothing"), "");
}

TEST(MetricsLine, InvalidLinesAreSkipped) {
  MetricsLine line;
  for (const char* const text : {"", "{\"step\":1,\"loss\":2", "[1]", "{\"loss\":1}", "7",
                                 "{\"step\":\"a\",\"loss\":1}", "{\"step\":-1,\"loss\":1}"})
    EXPECT_EQ(line.parse(text), Kind::broken) << text;
  EXPECT_EQ(line.parse(R"({"step":3,"a_later":"version"})"), Kind::other);
  EXPECT_EQ(line.parse(R"({"step":1,"loss":null})"), Kind::step);
  EXPECT_TRUE(std::isnan(line.number("loss")));
}

// A tail, and its news since the last call.
struct Tail {
  explicit Tail(const std::string& path, std::uint64_t window = 64, std::uint64_t longest = 4096)
      : file(path, window, longest) {}
  FileTail file;
  std::vector<std::string> lines;
  FileTail::Change poll() {
    lines.clear();
    return file.poll([] {}, [&](std::string_view line) { lines.emplace_back(line); });
  }
};

TEST(FileTail, FollowsWhatIsAddedAndWaitsForTheEndOfALine) {
  const TemporaryDirectory directory;
  Tail tail(directory.file("f"));
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  EXPECT_FALSE(tail.file.exists());

  write_text(directory.file("f"), "one\ntwo\nthr");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("one", "two"));
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  std::ofstream(directory.file("f"), std::ios::app) << "ee\n";
  EXPECT_EQ(tail.poll(), FileTail::Change::added);
  EXPECT_THAT(tail.lines, ElementsAre("three"));
}

TEST(FileTail, BeginsWithWholeLinesNearTheEnd) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 100; i < 200; ++i)
    text += std::to_string(i) + "\n";
  write_text(directory.file("f"), text);
  Tail tail(directory.file("f"), 8);

  EXPECT_EQ(tail.poll(), FileTail::Change::another);

  EXPECT_THAT(tail.lines, ElementsAre("198", "199"));
  EXPECT_TRUE(tail.file.begins_within());
}

TEST(FileTail, ALineThatIsLongerThanTheWindowIsReadWhole) {
  const TemporaryDirectory directory;
  write_text(directory.file("f"), "a\n" + std::string(1000, 'x') + "\n");
  Tail tail(directory.file("f"), 16);

  EXPECT_EQ(tail.poll(), FileTail::Change::another);

  EXPECT_EQ(tail.lines.back().size(), 1000U);
}

TEST(FileTail, NoticesTruncationReplacementAndRemoval) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("f");
  Tail tail(path);
  write_text(path, "1\n2\n3\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  write_text(path, "1\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("1"));
  // Truncated and then longer than before: the old line end is gone.
  write_text(path, "123456\n7\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
  EXPECT_THAT(tail.lines, ElementsAre("123456", "7"));
  std::filesystem::remove(path);
  EXPECT_EQ(tail.poll(), FileTail::Change::gone);
  EXPECT_EQ(tail.poll(), FileTail::Change::none);
  write_text(path, "9\n");
  EXPECT_EQ(tail.poll(), FileTail::Change::another);
}

TEST(FileTail, APipeDoesNotBlock) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo(directory.file("f").c_str(), 0600), 0);
  Tail tail(directory.file("f"));

  EXPECT_EQ(tail.poll(), FileTail::Change::none);

  EXPECT_EQ(tail.file.problem(), "is not a regular file");
}

TEST(FileTail, TheEndOfAFileBeginsWithALineAndMayBeTorn) {
  const TemporaryDirectory directory;
  write_text(directory.file("f"), "one\ntwo\nthr");
  EXPECT_EQ(end_of_file(directory.file("f")), "one\ntwo\nthr");
  EXPECT_EQ(end_of_file(directory.file("f"), 8), "two\nthr");
  EXPECT_EQ(end_of_file(directory.file("none")), "");
}

TEST(RunFiles, OnlyKnownKeysOfAnEnvironmentAreRead) {
  const auto file = parse_environment(
      R"({"version":"1","ranks":2,"hosts":["a",3],"cpu":{"model":"x","cores_online":4}})");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->ranks, 2);
  EXPECT_THAT(file->hosts, ElementsAre("a", "?"));
  EXPECT_EQ(file->cpu, "x");
  EXPECT_EQ(file->cores, 4);
  EXPECT_EQ(parse_environment(R"({"ranks":"many","cpu":3})")->ranks, 0);
  EXPECT_FALSE(parse_environment("[1]"));
}

TEST(RunFiles, TheNewestCheckpointIsAWholeOne) {
  const TemporaryDirectory directory;
  const RunFiles run(directory.file("run"));
  EXPECT_FALSE(newest_stored(run.path()));
  for (const char* const name : {"step_00000002", "step_00000010", "step_00000030"})
    std::filesystem::create_directories(run.file("checkpoints/") + name);
  write_text(run.file("checkpoints/step_00000002/manifest.json"), "{}");
  write_text(run.file("checkpoints/step_00000010/manifest.json"), "{}");
  EXPECT_EQ(newest_stored(run.path())->step, 10);
  EXPECT_EQ(list_stored(run.path()).size(), 3U);
  EXPECT_EQ(stored_bytes(*newest_stored(run.path())), 2);
  EXPECT_FALSE(list_stored(run.path()).back().whole);
}

}  // namespace
}  // namespace trireme::runs
