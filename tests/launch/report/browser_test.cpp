// SPDX-License-Identifier: Apache-2.0
// The pages in a headless browser: they open without an error, and their charts are drawn. Skipped
// without Chromium.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "launch/observe/report/runs_page.h"
#include "launch/study/ablate/comparison.h"
#include "launch/study/ablate/report.h"
#include "launch/study/scale/report.h"
#include "tests/launch/report/lines.h"
#include "tests/support/command.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::IsEmpty;

// Runs in the loaded page: collects errors, and canvases with more than one colour. Headless
// Chromium prints the final document.
constexpr std::string_view probe = R"js(<script>
const problems = [];
addEventListener("error", (event) => problems.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => problems.push("policy: " + event.blockedURI));
console.error = console.warn = (...words) => problems.push(words.join(" "));
addEventListener("load", () => setTimeout(() => {
  const drawn = (canvas) => {
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return new Set(pixels).size > 3;
  };
  for (const choice of document.querySelectorAll("#smoothing, .bar input")) {
    choice.checked = true;
    if (choice.options) choice.selectedIndex = 2;
    choice.dispatchEvent(new Event("change"));
  }
  const canvases = [...document.querySelectorAll("canvas")];
  for (const plot of document.querySelectorAll(".plot")) {
    for (const key of ["End", "ArrowLeft", "Escape"]) plot.dispatchEvent(new KeyboardEvent("keydown", { key }));
  }
  document.querySelectorAll("figure details").forEach((details) => { details.open = true; });
  setTimeout(() => {
    const result = { problems, canvases: canvases.length, blank: canvases.filter((canvas) => !drawn(canvas)).length,
      overflow: document.documentElement.scrollWidth - innerWidth, tables: document.querySelectorAll("figure table:not(.u-legend)").length,
      titles: [...document.querySelectorAll("figure h3")].map((title) => title.textContent),
      axes: charts.all.map((chart) => chart.uplot.axes[1].label || ""), legends: charts.all.map((chart) => chart.uplot.series.map((one) => one.label).join()),
      readouts: [...document.querySelectorAll(".readout")].filter((line) => line.textContent !== "").length
};
document.body.replaceChildren(Object.assign(document.createElement("pre"),
                                            {id : "probe", textContent : JSON.stringify(result)}));
}, 0);
}, 0));
</script>
)js";

std::string chromium() {
  const CommandResult found =
      run_command("command -v chromium chromium-browser google-chrome chrome | head -n 1");
  return found.output.substr(0, found.output.find('\n'));
}

class ReportBrowser : public testing::Test {
 protected:
  void SetUp() override {
    browser_ = chromium();
    if (browser_.empty()) GTEST_SKIP() << "there is no chromium to open the page with";
  }

  // The probe's findings for `html` at a width of `width` pixels.
  [[nodiscard]] json open(std::string html, int width) const {
    html.insert(html.find("<meta name=\"viewport\""), probe);
    write_file(directory_.path() + "/page.html", html);
    const CommandResult shown = run_command(
        fmt::format("cd {0} && HOME={0} {1} --headless --no-sandbox --disable-gpu "
                    "--user-data-dir={0}/profile --window-size={2},900 --virtual-time-budget=20000 "
                    "--dump-dom page.html 2>/dev/null",
                    directory_.path(), browser_, width),
        120);
    constexpr std::string_view mark = "<pre id=\"probe\">";
    const std::size_t begin = shown.output.find(mark);
    EXPECT_NE(begin, std::string::npos) << shown.output.substr(0, 2000);
    if (begin == std::string::npos) return json::object();
    const std::size_t from = begin + mark.size();
    return json::parse(shown.output.substr(from, shown.output.find("</pre>", from) - from));
  }

  [[nodiscard]] report::RunData run_of(const std::string& name, std::int64_t steps) const {
    const std::string path = directory_.path() + "/" + name;
    std::filesystem::create_directory(path);
    std::string text;
    for (std::int64_t step = 1; step <= steps; ++step) {
      text += step_line(step, 3.0 / static_cast<double>(step), 0.1 * static_cast<double>(step));
      if (step % 50 == 0) text += evaluation_line(step, 2, 0.1 * static_cast<double>(step));
    }
    write_file(path + "/metrics.jsonl", text);
    std::string ranks;
    for (std::int64_t first = 1; first <= steps; first += 50)
      ranks += fmt::format(
          R"({{"steps":[{},{}],"split":{{}},"by_rank":{{"period_ms":[9,9,9,9],"late_ms":[1,{},3,0]}}}})"
          "\n",
          first, first + 49, first);
    write_file(path + "/ranks.jsonl", ranks);
    return report::read_run(path);
  }

 private:
  std::string browser_;
  TemporaryDirectory directory_;
};

TEST_F(ReportBrowser, APageOpensWithEveryChartDrawn) {
  const std::string html = report::runs_page({{run_of("one", 4500)}});
  for (const int width : {500, 1400}) {
    const json seen = open(html, width);

    EXPECT_THAT(seen["problems"], IsEmpty()) << seen;
    EXPECT_GE(seen["canvases"], 8) << seen;
    EXPECT_EQ(seen["blank"], 0) << seen;
    EXPECT_LE(seen["overflow"], 0) << seen;
    // Also by keyboard and as numbers.
    EXPECT_EQ(seen["readouts"], seen["canvases"]);
    EXPECT_EQ(seen["tables"], seen["canvases"]);
    EXPECT_NE(seen["titles"].dump().find("Lateness by rank"), std::string::npos);
    // The bar's settings apply: curves are logarithmic and smooth.
    EXPECT_NE(seen["axes"].dump().find("loss, logarithmic"), std::string::npos) << seen["axes"];
    EXPECT_NE(seen["legends"].dump().find("training, as measured"), std::string::npos);
    std::set<std::string> titles;
    for (const json& title : seen["titles"])
      EXPECT_TRUE(titles.insert(title).second) << title << " is there twice";
  }
}

TEST_F(ReportBrowser, RunsOfDifferentLengthAreComparedByTime) {
  const json seen =
      open(report::runs_page({{run_of("one", 120), run_of("two", 60), run_of("three", 0)}},
                             report::Alignment::time),
           1400);

  EXPECT_THAT(seen["problems"], IsEmpty()) << seen;
  EXPECT_GE(seen["canvases"], 4) << seen;
  EXPECT_EQ(seen["blank"], 0) << seen;
}

TEST_F(ReportBrowser, CurvesThatAreTheSameSaySo) {
  const json seen = open(
      report::runs_page({{run_of("one", 120), run_of("two", 120), run_of("three", 60)}}), 1400);

  EXPECT_NE(seen["legends"].dump().find("two (same as one)"), std::string::npos) << seen["legends"];
  EXPECT_EQ(seen["legends"].dump().find("three (same"), std::string::npos) << seen["legends"];
}

scale::RunResult result_of(double period, double compute) {
  return {.command = 0,
          .code = 0,
          .error = {},
          .parts = {{TimePart::period, period},
                    {TimePart::compute, compute},
                    {TimePart::exposed_comm, period - compute}}};
}

TEST_F(ReportBrowser, AScalingStudyIsDrawnByTheSamePage) {
  using scale::Mode;
  scale::Study study;
  study.options.config = "a<b>.yaml";
  study.traits.item_name = "tokens";
  const auto point = [](Mode mode, MeshShape mesh, std::int64_t batch) {
    return scale::Point{.mode = mode, .mesh = mesh, .global_batch = batch};
  };
  const std::vector<scale::Row> rows =
      scale::attribute({{point(Mode::weak, {.data = 1}, 8), {result_of(1, 1)}},
                        {point(Mode::weak, {.data = 4}, 32),
                         {result_of(1.25, 1.05), result_of(1.3, 1), result_of(1.2, 1)}},
                        {point(Mode::weak, {.data = 2, .tensor = 2}, 32), {result_of(0.95, 0.9)}},
                        {point(Mode::strong, {.data = 2}, 8), {std::nullopt}}});

  const json seen = open(scale::html_report(study, rows), 1400);

  EXPECT_THAT(seen["problems"], IsEmpty()) << seen;
  EXPECT_EQ(seen["canvases"], 3) << seen;
  EXPECT_EQ(seen["blank"], 0) << seen;
  EXPECT_EQ(seen["tables"], 3) << seen;
}

// A cell with losses that fall by `rate`, and an evaluation every tenth step.
ablate::Cell cell_of(std::size_t variant, std::size_t seed, double rate) {
  ablate::Cell cell{
      .variant = variant, .seed = seed, .state = ablate::CellState::done, .steps = 40};
  cell.legs = {{.from = 0, .to = 40, .directory = "runs/<a>", .command = "trireme train 'a b'"}};
  for (int step = 1; step <= 40; ++step) {
    const ablate::Curve::Place place{
        .steps = 1.0 * step, .items = 512.0 * step, .seconds = 0.1 * step};
    const double loss = 3 + std::exp(-rate * step) + 0.01 * static_cast<double>(seed);
    cell.curve.training.push_back({.place = place, .loss = loss});
    if (step % 10 == 0) cell.curve.evaluations.push_back({.place = place, .loss = loss + 0.1});
  }
  return cell;
}

TEST_F(ReportBrowser, AnAblationIsDrawnByTheSamePageOnAnyAxis) {
  ablate::Study study;
  study.file = "<study>.yaml";
  study.config = "gpt.yaml";
  study.seeds = {1, 2, 3};
  study.metric = ablate::Metric::validation_loss;
  study.traits.item_name = "tokens";
  study.price_per_rank_hour = 2;
  ablate::AblationResult result;
  for (const char* const name : {"base", "learning_rate=2e-3,<b>", "of one seed"}) {
    const std::size_t variant = study.variants.size();
    study.variants.push_back({.name = name, .settings = {}});
    for (std::size_t seed = 0; seed < study.seeds.size(); ++seed)
      result.cells.push_back(cell_of(variant, seed, 0.1 * static_cast<double>(variant + 1)));
  }
  for (const std::size_t lost : {7UL, 8UL})
    result.cells[lost] = {.variant = 2, .seed = lost - 6, .state = ablate::CellState::failed};
  const std::vector<ablate::Row> rows = ablate::compare(study, result);
  const std::string page = ablate::html_report(study, result, rows);
  const std::string chosen = "value=\"cost\" selected", first = "value=\"steps\" selected";
  std::string by_cost = page;
  by_cost.replace(by_cost.find(first), first.size(), "value=\"steps\"");
  by_cost.replace(by_cost.find("value=\"cost\""), chosen.size() - 9, chosen);

  for (const std::string& html : {page, by_cost}) {
    const json seen = open(html, 500);

    EXPECT_THAT(seen["problems"], IsEmpty()) << seen;
    EXPECT_EQ(seen["canvases"], 2) << seen;
    EXPECT_EQ(seen["blank"], 0) << seen;
    EXPECT_LE(seen["overflow"], 0) << seen;
    EXPECT_EQ(seen["tables"], 2) << seen;
    EXPECT_NE(seen["titles"].dump().find("Difference to the base at equal steps"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::test
