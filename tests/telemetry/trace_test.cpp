// SPDX-License-Identifier: Apache-2.0
// Traces as files, from plain values.
#include <gmock/gmock.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "runtime/telemetry/trace/gzip_parts.h"
#include "runtime/telemetry/trace/trace_json.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TEST(InnermostPieces, AreTheTimesOfTheInnermostSpans) {
  // 0: the whole; 1 and 3 within it; 2 within 1; 4 apart.
  const auto pieces = innermost_pieces({{0, 100}, {10, 50}, {20, 30}, {50, 60}, {200, 210}});

  std::vector<std::tuple<std::int64_t, std::int64_t, std::size_t>> seen;
  for (const TracePiece& piece : pieces)
    seen.emplace_back(piece.begin, piece.end, piece.span);
  using Piece = std::tuple<std::int64_t, std::int64_t, std::size_t>;
  EXPECT_THAT(seen,
              ElementsAre(Piece{0, 10, 0}, Piece{10, 20, 1}, Piece{20, 30, 2}, Piece{30, 50, 1},
                          Piece{50, 60, 3}, Piece{60, 100, 0}, Piece{200, 210, 4}));
  EXPECT_TRUE(innermost_pieces({}).empty());
}

std::string inflated(const std::string& path) {
  gzFile file = ::gzopen(path.c_str(), "rb");
  std::string text, buffer(10'000, '\0');
  int bytes = 0;
  while ((bytes = ::gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0)
    text.append(buffer, 0, static_cast<std::size_t>(bytes));
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(::gzclose(file), Z_OK);
  return text;
}

TEST(GzipFiles, AreOneMemberOfPartsThatWereCompressedApart) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.path() + "/a.gz";
  std::string large;
  for (int i = 0; i < 200'000; ++i)
    large += std::to_string(i * 7919);
  {
    GzipFile file(path);
    file.write("begin ");
    file.write("");
    file.write(unpack(pack(deflate_text(large))));
    file.write(" end");
    file.commit();
  }

  EXPECT_EQ(inflated(path), "begin " + large + " end");
  // A reader of only one gzip member, like chrome://tracing.
  std::string file(1 << 22, '\0');
  std::FILE* const raw = std::fopen(path.c_str(), "rb");
  file.resize(std::fread(file.data(), 1, file.size(), raw));
  std::fclose(raw);
  std::string out(large.size() + 100, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(file.data());
  stream.avail_in = static_cast<uInt>(file.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ASSERT_EQ(::inflateInit2(&stream, 31), Z_OK);
  EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0U);
  EXPECT_EQ(stream.total_out, large.size() + 10);
  ::inflateEnd(&stream);
}

RankTrace rank_1() {
  RankTrace trace;
  trace.rank = 1;
  trace.host = "node \"7\"";
  trace.clock.error_us = 2;
  trace.tracks = {{TrackKind::compute, "compute stream"},
                  {TrackKind::communication, "communication stream"},
                  {TrackKind::host, "host"}};
  trace.groups = {{.name = "data", .first = 0, .rank = 1, .size = 2}};
  trace.spans = {
      {.kind = SpanKind::step,
       .track = 0,
       .name = "step 3",
       .begin = 1'000,
       .end = 9'000,
       .step = 3},
      {.kind = SpanKind::pass,
       .track = 0,
       .name = "forward",
       .begin = 2'000,
       .end = 8'000,
       .step = 3,
       .chunk = 0,
       .micro_batch = 2},
      {.kind = SpanKind::layer,
       .track = 0,
       .name = "block.\xff",
       .begin = 3'000,
       .end = 5'001,
       .step = 3},
      {.kind = SpanKind::wait, .track = 0, .name = "wait", .begin = 6'000, .end = 7'000, .step = 3},
      {.kind = SpanKind::collective,
       .track = 1,
       .name = "all_reduce x",
       .begin = 6'000,
       .end = 7'000,
       .step = 3,
       .group = 0,
       .verb = "all_reduce",
       .number = 4,
       .bytes = 12},
      {.kind = SpanKind::activity, .track = 2, .name = "report", .begin = 9'000, .end = 9'500}};
  trace.counters = {{"queue", 2'500, 3}};
  return trace;
}
const TraceFacts facts{.first_step = 3,
                       .last_step = 3,
                       .ranks = 2,
                       .data = 2,
                       .device = "cpu",
                       .origin_unix_ns = 5,
                       .clocks = {{}, {.offset_us = 1, .error_us = 2}}};

TEST(PerfettoJson, HasTracksSpansArrowsAndCounters) {
  const json file =
      json::parse(perfetto_begin(facts) + perfetto_part(rank_1()) + std::string(perfetto_end()));

  EXPECT_EQ(file.at("otherData").at("trireme_trace").at("clock_error_us"), 2);
  std::map<std::string, int> phases;
  const json *layer = nullptr, *call = nullptr, *arrow = nullptr, *clock = nullptr;
  for (const json& event : file.at("traceEvents")) {
    ++phases[event.at("ph").get<std::string>()];
    if (event.at("ph") == "f") arrow = &event;
    if (event.value("name", "") == "clock") clock = &event;
    if (event.value("name", "") == "all_reduce x") call = &event;
    if (event.contains("args") && event["args"].value("kind", "") == "layer") layer = &event;
  }
  EXPECT_EQ(phases["X"], 6);
  EXPECT_EQ(phases["C"], 1);
  EXPECT_EQ(phases["s"], 0);  // the last of its group
  EXPECT_EQ(phases["f"], 1);
  ASSERT_TRUE(layer != nullptr && call != nullptr && arrow != nullptr && clock != nullptr);
  EXPECT_EQ(clock->at("args").at("error_us"), 2.0);
  EXPECT_EQ(layer->at("ts"), 3.0);
  EXPECT_EQ(layer->at("dur"), 2.001);
  EXPECT_EQ(call->at("args").at("group"), "data of rank 0");
  EXPECT_EQ(call->at("args").at("number"), 4);
  EXPECT_EQ(arrow->at("tid"), call->at("tid"));
  EXPECT_EQ(arrow->at("ts"), 6.999);  // within the span
}

// Requirements of Holistic Trace Analysis: kernels by stream, none nested, steps.
TEST(KinetoJson, HasKernelsThatDoNotOverlapOnAStream) {
  const std::string text = kineto_json(rank_1(), facts);
  EXPECT_THAT(text, testing::HasSubstr("\"rank\": 1,"));  // in this spelling
  const json file = json::parse(text);

  EXPECT_EQ(file.at("distributedInfo").at("rank"), 1);
  EXPECT_EQ(file.at("distributedInfo").at("world_size"), 2);
  std::map<int, double> ends;  // by stream
  int kernels = 0, steps = 0, messages = 0;
  for (const json& event : file.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const auto name = event.at("name").get<std::string>();
    steps += name == "ProfilerStep#3" ? 1 : 0;
    messages += name.starts_with("ncclDevKernel_all_reduce") ? 1 : 0;
    if (event.at("cat") != "kernel") continue;
    ++kernels;
    const int stream = event.at("args").at("stream").get<int>();
    EXPECT_GE(event.at("ts").get<double>(), ends[stream]);
    ends[stream] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(kernels, 5);  // forward in three pieces, the layer, the collective
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(messages, 1);
}

}  // namespace
}  // namespace trireme
