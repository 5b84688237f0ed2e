// SPDX-License-Identifier: Apache-2.0
// Event files by the format's documentation, with a separate reader.
#include "runtime/telemetry/export/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "runtime/telemetry/export/export_facts.h"
#include "runtime/telemetry/export/exporters.h"
#include "tests/support/temporary_directory.h"
#include "tests/telemetry/export/protobuf_reader.h"
#include "tests/telemetry/export/sample_run.h"

namespace trireme {
namespace {

using namespace std::chrono_literals;
using test::Message;
using test::noon;
using test::read_text;
using test::sample_evaluation;
using test::sample_facts;
using test::sample_step;
using test::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;

// Bit by bit, from the polynomial.
std::uint32_t reference_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
  }
  return ~crc;
}

std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.substr(at).data(), sizeof number);
  return number;
}

std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

// The content of complete records; checks all checksums.
std::vector<Message> events_of(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<Message> events;
  for (std::string_view rest = text; !rest.empty();) {
    const auto size = number_at<std::uint64_t>(rest, 0);
    EXPECT_EQ(number_at<std::uint32_t>(rest, 8), masked(reference_crc32c(rest.substr(0, 8))));
    EXPECT_EQ(number_at<std::uint32_t>(rest, 12 + size),
              masked(reference_crc32c(rest.substr(12, size))));
    events.emplace_back(rest.substr(12, size));
    rest.remove_prefix(16 + size);
  }
  return events;
}

struct Points {
  std::map<std::string, std::map<std::int64_t, float>> scalars;
  std::map<std::string, std::string> texts, descriptions;
};

Points points_of(const std::vector<Message>& events) {
  Points points;
  for (const Message& event : events) {
    for (const Message& value : event.message(5).messages(1)) {
      const std::string tag = value.text(1);
      if (value.has(2)) points.scalars[tag][event.integer(2)] = value.float32(2);
      if (value.has(8)) points.texts[tag] = value.message(8).text(8);
      if (value.message(9).has(3)) points.descriptions[tag] = value.message(9).text(3);
    }
  }
  return points;
}

TEST(EventFile, HasTheChecksumOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);            // the check value of CRC-32C
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720 B.4
}

TEST(TensorBoard, BeginsWithTheVersionOfTheFormat) {
  const TemporaryDirectory directory;

  const TensorBoard board(sample_facts(directory.path()));

  const auto files = event_files(directory.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0], HasSubstr("/events.out.tfevents.1795348862."));
  const auto events = events_of(files[0]);
  EXPECT_EQ(events.at(0).text(3), "brain.Event:2");
  EXPECT_DOUBLE_EQ(events.at(0).float64(1), 1795348862.345);
  EXPECT_FALSE(events.at(1).has(7));
}

TEST(TensorBoard, HistogramsAreRowsOfEdgesAndCounts) {
  const TemporaryDirectory directory;
  TensorBoard board(sample_facts(directory.path()));

  board.histograms(test::sample_histograms(40));

  const auto events = events_of(event_files(directory.path()).at(0));
  const Message& event = events.back();
  EXPECT_EQ(event.integer(2), 40);
  const auto values = event.message(5).messages(1);
  ASSERT_EQ(values.size(), 2U);
  EXPECT_EQ(values[0].text(1), "weights/block.weight");
  EXPECT_EQ(values[0].message(9).message(1).text(1), "histograms");
  const Message tensor = values[0].message(8);
  EXPECT_EQ(tensor.integer(1), 2) << "doubles";
  EXPECT_EQ(tensor.message(2).messages(2).size(), 2U);
  EXPECT_EQ(tensor.text(6).size(), 9 * sizeof(double));
}

TEST(TensorBoard, SamplesAreTextsAndPictures) {
  const TemporaryDirectory directory;
  TensorBoard board(sample_facts(directory.path()));

  board.samples(test::sample_samples(40));

  const auto events = events_of(event_files(directory.path()).at(0));
  const Points points = points_of(events);
  EXPECT_THAT(
      points.texts.at("samples/text_1"),
      HasSubstr("\n    In the beginning\n\ncontinuation\n\n     was\n    the \xef\xbf\xbd\n"));
  EXPECT_THAT(points.texts.at("samples/classes"), HasSubstr("| shirt | shoe |"));
  const auto values = events.back().message(5).messages(1);
  const auto picture = std::ranges::find_if(
      values, [](const Message& value) { return value.text(1) == "samples/picture_1"; });
  ASSERT_NE(picture, values.end());
  EXPECT_EQ(picture->message(9).message(1).text(1), "images");
  const auto parts = picture->message(8).texts(8);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0] + "x" + parts[1], "3x2");
  EXPECT_THAT(parts[2], testing::StartsWith("\x89PNG\r\n"));
}

TEST(TensorBoard, HasEveryMetricOfTheTable) {
  const TemporaryDirectory directory;
  TensorBoard board(sample_facts(directory.path()));

  board.step(sample_step(7));
  board.evaluation(sample_evaluation(7));
  board.finish(RunEnd::done);

  const Points points = points_of(events_of(event_files(directory.path())[0]));
  std::size_t expected = 0;
  for (const StepMetric& metric : step_metrics()) {
    const std::string tag = grouped_name(metric, ItemKind::tokens);
    SCOPED_TRACE(tag);
    ASSERT_TRUE(metric.value(sample_step(7)));
    EXPECT_EQ(points.scalars.at(tag).at(7), static_cast<float>(*metric.value(sample_step(7))));
    EXPECT_THAT(points.descriptions.at(tag), HasSubstr(std::string(metric.meaning)));
    ++expected;
  }
  for (const EvaluationMetric& metric : evaluation_metrics()) {
    const std::string tag = grouped_name(metric);
    SCOPED_TRACE(tag);
    EXPECT_EQ(points.scalars.at(tag).at(7),
              static_cast<float>(*metric.value(sample_evaluation(7))));
    ++expected;
  }
  EXPECT_EQ(points.scalars.at("evaluation_books/validation_loss").at(7), 1.125F);
  EXPECT_EQ(points.scalars.at("evaluation_books/accuracy").at(7), 0.625F);
  EXPECT_EQ(points.scalars.at("evaluation_code/validation_loss").at(7), 1.375F);
  EXPECT_EQ(points.scalars.size(), expected + 3);
  EXPECT_EQ(points.scalars.count("train/tokens_per_s"), 1U);
}

TEST(TensorBoard, KeepsNumbersThatAreNotFinite) {
  const TemporaryDirectory directory;
  TensorBoard board(sample_facts(directory.path()));
  StepMetrics metrics = sample_step(1);
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.grad_norm = std::numeric_limits<double>::infinity();

  board.step(metrics);
  board.finish(RunEnd::failed);

  const Points points = points_of(events_of(event_files(directory.path())[0]));
  EXPECT_TRUE(std::isnan(points.scalars.at("train/loss").at(1)));
  EXPECT_TRUE(std::isinf(points.scalars.at("train/grad_norm").at(1)));
}

TEST(TensorBoard, ShowsTheConfigAndProblemsAsText) {
  const TemporaryDirectory directory;
  TensorBoard board(sample_facts(directory.path()));

  board.skipped({.step = 3, .zscore = 8.5, .samples = {11, 12}, .time = noon});
  board.failed_save({.step = 4, .problem = "rank 1: disk full", .in_a_row = 2, .time = noon});

  const Points points = points_of(events_of(event_files(directory.path())[0]));
  EXPECT_EQ(points.texts.at("config"), "```yaml\nrun:\n  directory: runs/sample\n```\n");
  EXPECT_EQ(points.texts.at("command line"), "`trireme train a.yaml`");
  EXPECT_EQ(points.texts.at("skipped batches"),
            "step 3: its loss was 8.500 standard deviations above the mean; samples 11, 12");
  EXPECT_EQ(points.texts.at("checkpoints not written"), "step 4, 2 in a row: rank 1: disk full");
}

TEST(TensorBoard, HasAllFlushedEventsInItsFile) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  facts.flush_every = 1h;
  Exporters board({.tensorboard = true}, facts);

  board.step(sample_step(1));  // flushed at once, so a reader sees the run's begin
  board.step(sample_step(2));

  const auto loss = [&] {
    return points_of(events_of(event_files(directory.path())[0])).scalars.at("train/loss");
  };
  EXPECT_EQ(loss().size(), 1U);
  board.evaluation(sample_evaluation(2));
  EXPECT_EQ(loss().size(), 2U);
}

TEST(TensorBoard, ContinuesInALaterFileWithItsFirstStep) {
  const TemporaryDirectory directory;
  ExportFacts facts = sample_facts(directory.path());
  { const TensorBoard first(facts); }
  facts.done = 40;
  facts.start = noon - 1h;  // the clock was set back meanwhile

  const TensorBoard second(facts);

  const auto files = event_files(directory.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_THAT(files[1], HasSubstr("/events.out.tfevents.1795348863."));
  const Message start = events_of(files[1]).at(1);
  EXPECT_EQ(start.integer(2), 41);            // later steps are forgotten from here on
  EXPECT_EQ(start.message(7).integer(1), 1);  // SessionLog.START
}

}  // namespace
}  // namespace trireme
