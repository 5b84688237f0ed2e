// SPDX-License-Identifier: Apache-2.0
// run-ID.wandb by a reader of this test's own; telemetry_read_back.wandb asks W&B's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <map>

#include "runtime/telemetry/export/exported_names.h"
#include "runtime/telemetry/export/wandb_run.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/protobuf_reader.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::Message;
using test::read_text;
using test::sample_evaluation;
using test::sample_facts;
using test::sample_step;
using test::TemporaryDirectory;
using test::write_text;
using testing::ElementsAre;

std::string only_file(const std::string& directory) {
  std::string path;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.path().extension() == ".wandb") {
      EXPECT_EQ(path, "") << "more than one file";
      path = entry.path();
    }
  return path;
}

// The records of a file; blocks and checksums are checked.
std::vector<std::string> records_of(const std::string& path) {
  const std::string text = read_text(path);
  EXPECT_EQ(text.substr(0, 4), ":W&B");
  std::vector<std::string> records;
  for (std::size_t at = 7; at < text.size();) {
    const std::size_t left = 32768 - at % 32768;
    if (left < 7) {
      EXPECT_EQ(text.substr(at, left), std::string(left, '\0'));
      at += left;
      continue;
    }
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(text.at(at + i)));
    };
    const std::size_t size = byte(4) | byte(5) << 8;
    EXPECT_LE(7 + size, left) << "a part crosses the end of its block";
    const std::string checked = text.substr(at + 6, 1 + size);  // the type and the bytes
    EXPECT_EQ(byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24,
              crc32(0, reinterpret_cast<const Bytef*>(checked.data()),
                    static_cast<uInt>(checked.size())));
    if (byte(6) == 1 || byte(6) == 2) records.emplace_back();
    records.back() += checked.substr(1);
    at += 7 + size;
  }
  return records;
}

using Row = std::map<std::string, std::string>;

std::vector<Row> history_of(const std::string& path) {
  std::vector<Row> rows;
  for (const std::string& record : records_of(path)) {
    const Message message(record);
    if (!message.has(2)) continue;
    rows.emplace_back();
    for (const Message& item : message.message(2).messages(1))
      rows.back()[item.text(1)] = item.text(16);
  }
  return rows;
}

std::vector<std::string> steps_of(const std::string& path) {
  std::vector<std::string> steps;
  for (const Row& row : history_of(path))
    steps.push_back(row.at("_step"));
  return steps;
}

TEST(WandbFile, CutsLongRecordsAtTheEndsOfBlocks) {
  const TemporaryDirectory directory;
  WandbFile file(OutputDirectory(directory.path(), ExitCode::config), "run.wandb", {});
  const std::vector<std::size_t> sizes{10, 32700, 32740, 100'000, 3, 65'536};

  for (const std::size_t size : sizes) {
    ProtobufWriter record;
    record.text(wandb::record_summary, std::string(size, 'a'));
    file.add(record);
  }
  file.flush();

  const auto records = records_of(directory.file("run.wandb"));
  ASSERT_EQ(records.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(Message(records[i]).text(3).size(), sizes[i]);
    EXPECT_EQ(Message(records[i]).integer(1), static_cast<std::int64_t>(i) + 1);
  }
}

TEST(WandbRun, HasEveryMetricOfTheTableInTheRowOfItsStep) {
  const TemporaryDirectory directory;
  WandbRun run(sample_facts(directory.path()));

  run.step(sample_step(7));
  run.evaluation(sample_evaluation(7));
  run.finish(RunEnd::done);

  const auto rows = history_of(only_file(directory.path()));
  ASSERT_EQ(rows.size(), 1U);
  for (const StepMetric& metric : step_metrics())
    EXPECT_EQ(std::stod(rows[0].at(grouped_name(metric, ItemKind::tokens))),
              *metric.value(sample_step(7)));
  for (const EvaluationMetric& metric : evaluation_metrics())
    EXPECT_EQ(std::stod(rows[0].at(grouped_name(metric))), *metric.value(sample_evaluation(7)));
  EXPECT_EQ(rows[0].at("evaluation_books/accuracy"), "0.625");
  EXPECT_EQ(rows[0].at("_runtime"), "0.875");
  EXPECT_EQ(rows[0].size(), step_metrics().size() + evaluation_metrics().size() + 3 + 3);
}

TEST(WandbRun, BeginsWithTheRunAndItsConfigAndEndsWithTheExitCode) {
  const TemporaryDirectory directory;
  WandbRun run(sample_facts(directory.path()));
  run.step(sample_step(1));

  run.finish(RunEnd::stopped);

  const std::string path = only_file(directory.path());
  const auto records = records_of(path);
  const Message first = Message(records.front()).message(17);
  EXPECT_EQ("run-" + first.text(1) + ".wandb", fs::path(path).filename());
  EXPECT_EQ(first.text(3), "trireme");
  std::map<std::string, std::string> config;
  for (const Message& item : first.message(4).messages(1))
    config[item.text(1)] = item.text(16);
  EXPECT_EQ(config.at("train"), R"({"steps":1000})");
  EXPECT_EQ(config.at("run"), R"({"directory":"runs/sample"})");
  EXPECT_TRUE(Message(records.back()).has(20));
  EXPECT_EQ(Message(records.at(records.size() - 2)).message(18).integer(1), 75);
  EXPECT_TRUE(Message(records.at(records.size() - 3)).has(23));  // preempted
}

TEST(WandbRun, GoesOnInItsFileBehindTheStepsThatCount) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  test::failed_start<WandbRun>(facts);
  const std::string path = only_file(directory.path());
  write_text(path, read_text(path) + "a torn end");
  write_text(path + ".synced", "");
  facts.done = 3;

  WandbRun again(facts);
  again.step(sample_step(4));
  again.finish(RunEnd::done);

  EXPECT_THAT(steps_of(only_file(directory.path())), ElementsAre("1", "2", "3", "4"));
  EXPECT_FALSE(fs::exists(path + ".synced"));
  std::int64_t number = 0;
  for (const std::string& record : records_of(path))
    EXPECT_EQ(Message(record).integer(1), ++number);
}

TEST(WandbRun, BeginsAnewWhereItsFileIsNone) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  { const WandbRun run(facts); }
  write_text(only_file(directory.path()), "something else");
  facts.done = 3;

  WandbRun again(facts);
  again.step(sample_step(4));
  again.finish(RunEnd::done);

  EXPECT_THAT(steps_of(only_file(directory.path())), ElementsAre("4"));
}

}  // namespace
}  // namespace trireme
