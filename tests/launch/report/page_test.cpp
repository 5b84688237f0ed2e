// SPDX-License-Identifier: Apache-2.0
// The content of report.html, for any content of the run's files.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/observe/report/differences.h"
#include "launch/observe/report/html.h"
#include "launch/observe/report/runs_page.h"
#include "launch/observe/report/table.h"
#include "launch/observe/report/text_report.h"
#include "runtime/telemetry/bottleneck/bottleneck.h"
#include "runtime/telemetry/metric_table.h"
#include "tests/launch/report/lines.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using report::escaped;
using report::json_for_script;
using report::read_run;
using report::RunData;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

class ReportPage : public testing::Test {
 protected:
  void write_run(std::int64_t steps) const {
    std::string text;
    for (std::int64_t step = 1; step <= steps; ++step) {
      text += step_line(step, step == 777 ? 50.0 : 2.0, 0.1 * static_cast<double>(step));
      if (step % 100 == 0) text += evaluation_line(step, 2.5, 0.1 * static_cast<double>(step));
    }
    write_text(file("metrics.jsonl"), text);
  }
  [[nodiscard]] RunData run() const { return read_run(directory_.path()); }
  [[nodiscard]] std::string page() const { return report::runs_page({{run()}}); }
  [[nodiscard]] std::string file(const std::string& name) const { return directory_.file(name); }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ReportPage, EachPartOfTheTimeHasAColourOnLightAndDarkScreens) {
  write_run(1);
  const std::string text = page();

  for (const TimeRow& row : told_times(time_use::of_run)) {
    std::string colour = fmt::format("--{}: #", row.name);
    std::ranges::replace(colour.begin() + 2, colour.end() - 3, ' ', '-');
    EXPECT_GE(count_of(text, colour), 2U) << colour;
  }
}

TEST_F(ReportPage, TheDataOfARunReadBackWithTheirSpikes) {
  write_run(5000);

  const json data = report::page_data(run());

  EXPECT_EQ(data["items"], "tokens");
  EXPECT_EQ(data["step"].size(), data["series"]["loss"]["mean"].size());
  EXPECT_EQ(data["step"].size(), data["elapsed"].size());
  EXPECT_EQ(data["step"].back(), 5000);
  EXPECT_EQ(data["seen"].back(), 5e6);
  double greatest = 0;
  for (const json& value : data["series"]["loss"]["max"])
    greatest = std::max(greatest, value.get<double>());
  EXPECT_EQ(greatest, 50);
  EXPECT_EQ(data["evaluations"]["loss"].size(), 50U);
  EXPECT_EQ(data["evaluations"]["accuracy"].size(), 50U);
  EXPECT_EQ(data["evaluations"]["sources"]["a\"b"].size(), 50U);
}

TEST_F(ReportPage, EverythingIsInOneFileOfBoundedSize) {
  write_run(20000);

  const std::string html = page();

  EXPECT_LT(html.size(), 900'000U);
  EXPECT_THAT(html, AllOf(Not(HasSubstr("<link")), Not(HasSubstr(" src=")), Not(HasSubstr("url(")),
                          Not(HasSubstr("@import")), Not(HasSubstr("fetch("))));
  EXPECT_THAT(html, AllOf(HasSubstr("default-src 'none'"), HasSubstr("prefers-color-scheme: dark"),
                          HasSubstr("name=\"viewport\""), HasSubstr("<noscript>"),
                          HasSubstr("Permission is hereby granted"),  // uPlot's licence
                          HasSubstr("bottleneck: data wait")));
}

TEST_F(ReportPage, TheVerdictComesFirstAndABarShowsTheTime) {
  write_run(20);

  EXPECT_THAT(page(),
              AllOf(ContainsRegex("<strong>bottleneck: data wait [^<]*</strong>"),
                    HasSubstr("aria-label=\"Time: compute 70.0 %, "),
                    HasSubstr("<li><i style=\"background:var(--data-wait)\"></i>data wait 20.0 %"),
                    Not(HasSubstr("pipeline bubble 0"))));
}

TEST_F(ReportPage, ProblemsComeBeforeTheNumbers) {
  write_run(20);
  EXPECT_THAT(page(), AllOf(HasSubstr("<b>2.0000</b><span>training loss at step 20</span>"),
                            HasSubstr("<b>10.0k</b><span>tokens per second</span>"),
                            HasSubstr("<b>70.0 %</b>")));

  write_text(file("owner.lock"), "");
  write_text(file("console.log"), "[2026-11-22 12:01:02.345] [error] [0] [main] disk full\n");
  write_text(file("config.yaml"), "train: {steps: 30}\n");
  const std::string html = page();
  EXPECT_LT(html.find("FAILED: [error] [0] [main] disk full"), html.find("class=\"headline\">"));
}

// One table of colours by name for the page's bar, the charts and the pages of studies.
TEST_F(ReportPage, EveryPartOfTheTimeHasOneColourInLightAndInDark) {
  const std::string style(report::assets::page_style());
  for (const TimeRow& row : told_times(time_use::of_step | time_use::of_run | time_use::split)) {
    std::string name(row.name);
    std::ranges::replace(name, ' ', '-');
    EXPECT_EQ(count_of(style, "--" + name + ": #"), name.empty() ? 0U : 2U) << name;
  }
}

TEST_F(ReportPage, UserTextIsEscaped) {
  write_run(3);
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
  write_text(file("config.yaml"), "run: {directory: \"" + evil + "\"}\n# <!-- ]]>\n");
  write_text(file("environment.json"), json{{"version", evil},
                                            {"ranks", 2},
                                            {"hosts", {evil, "\xf0\x9f\x92\xa3"}},
                                            {"start_time", evil}}
                                           .dump());
  write_text(file("metrics.jsonl"),
             step_line(1, 2, 1) +
                 json{{"step", 1}, {"checkpoint_failed", evil}, {"failed_saves", 1}}.dump() + "\n");
  write_text(file("ranks.jsonl"), json{{"start", evil}, {"mesh", {{evil, 3}}}}.dump() + "\n");

  const std::string html = page();

  EXPECT_THAT(html, AllOf(Not(HasSubstr("<script>alert")), Not(HasSubstr("<img")),
                          HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)")));
  EXPECT_EQ(count_of(html, "</script>"), 3U);
  EXPECT_EQ(count_of(html, "<script"), 3U);
}

TEST_F(ReportPage, BytesThatAreNoTextDoNotBreakThePage) {
  EXPECT_EQ(escaped("a\xff<'\"&>"), "a\xef\xbf\xbd&lt;&#39;&quot;&amp;&gt;");
  EXPECT_EQ(json::parse(json_for_script("\xff</script>\u2028\"")), "\xef\xbf\xbd</script>\u2028\"");
  EXPECT_THAT(json_for_script("</script><!--&"), Not(ContainsRegex("[<>&]")));
  const double values[] = {1, std::nan(""), 2.5, HUGE_VAL, 1e-9};
  EXPECT_EQ(report::json_numbers(values).dump(), "[1,null,2.5,null,1e-09]");
}

TEST_F(ReportPage, ARunWithoutAStepHasAPage) {
  write_text(file("metrics.jsonl"), "{\"step\":1,\"lo");

  const std::string html = page();

  EXPECT_THAT(html, AllOf(HasSubstr("metrics.jsonl has no step yet"), HasSubstr("id=\"run-0\"")));
}

TEST_F(ReportPage, TheConfigGivesWorkAndMemoryOfARun) {
  write_run(20);
  write_text(file("config.yaml"),
             "model: {family: gpt2, layers: 2, hidden: 32, heads: 4, context: 32, vocabulary: 64}\n"
             "data: {path: nowhere}\nprecision: fp32\nreproducibility: run\n"
             "device: {type: cpu}\nparallel: {data: 1, hardware: " TRIREME_HARDWARE_FILE
             "}\n"
             "train: {steps: 20, global_batch: 4, micro_batch: 2}\n");
  write_text(file("memory.json"), "{\"parameters\": 1048576, \"gradients\": \"many\"}");

  const RunData found = run();
  const json data = report::page_data(found);

  ASSERT_GT(found.figures.flops_per_item, 0) << testing::PrintToString(found.remarks);
  ASSERT_GT(found.figures.peak_flops, 0);
  // 1000 tokens in 100 ms.
  const double mfu = 1e4 * found.figures.flops_per_item / found.figures.peak_flops;
  EXPECT_NEAR(data["series"]["mfu"]["mean"][0].get<double>(), mfu, 1e-4 * mfu);
  const json& names = data["memory"]["names"];
  const auto parameters = std::ranges::find(names, json("parameters")) - names.begin();
  ASSERT_LT(parameters, static_cast<std::ptrdiff_t>(names.size())) << names;
  EXPECT_EQ(data["memory"]["measured"][static_cast<std::size_t>(parameters)], 1);
  EXPECT_GT(data["memory"]["planned"][static_cast<std::size_t>(parameters)], 0);
}

TEST_F(ReportPage, SeveralRunsAreSideBySide) {
  write_run(200);
  const RunData one = run();
  RunData other = one;
  other.name = "other <b>";
  RunData unreadable = one;
  RunData alike = other;
  other.family = "gpt2";
  alike.family = "resnet";
  other.settings = {{"run.directory", "b"}, {"train.steps", "20"}, {"model.layers", "<4>"}};
  alike.settings = {{"run.directory", "a"}, {"train.steps", "20"}};

  const std::string html = report::runs_page({{one, other}}, report::Alignment::time);

  EXPECT_THAT(html, AllOf(HasSubstr("2 runs compared"), HasSubstr("id=\"comparison\""),
                          HasSubstr("id=\"run-1\""), HasSubstr("other &lt;b&gt;"),
                          HasSubstr("<option value=\"time\" selected>"),
                          Not(HasSubstr("Settings that differ"))));
  const RunData three[] = {other, alike, unreadable};
  EXPECT_THAT(report::runs_page(three),
              AllOf(HasSubstr("Settings of gpt2 alone"),
                    HasSubstr("model.layers</th><td class=\"text\">&lt;4&gt;</td><td "
                              "class=\"text\">?</td>")));
  EXPECT_EQ(report::text_differences(three),
            "\nsettings of gpt2 alone\nmodel.layers                  <4> | ?\n");
  alike.settings[1].second = "30";
  const RunData two[] = {other, alike};
  EXPECT_EQ(report::text_differences(two),
            "\nsettings that differ\ntrain.steps                   20 | 30\n"
            "\nsettings of gpt2 alone\nmodel.layers                  <4>\n");
}

TEST(Table, WritesTheSameCellsInEveryForm) {
  const auto rows = nlohmann::ordered_json::parse(
      R"([{"name": "a,b_1", "rate": 1234.5, "interval": [0.5, 0.75], "runs": [1, 2], "shared": true},
          {"name": "<c>", "rate": null, "runs": []}])");
  const report::Table table = report::table_of(
      rows, {report::words("name", "/name"), report::number("rate", "/rate", "{:.0f}"),
             report::number("95 %", "/interval", "{:.1f}", 100),
             report::number("range", "/interval/0 /interval/1", "{}", 1, ".."),
             report::number("runs", "/runs/#"), report::words("", "/shared", "*")});

  EXPECT_EQ(table.text(),
            "name   rate          95 %      range  runs\n"
            "a,b_1  1234  [50.0, 75.0]  0.5..0.75     2  *\n"
            "<c>                                      0\n");
  EXPECT_EQ(
      table.csv(),
      "name,rate,95 %,range,runs,\n\"a,b_1\",1234,\"[50.0, 75.0]\",0.5..0.75,2,*\n<c>,,,,0,\n");
  EXPECT_THAT(table.html("Rows"),
              AllOf(HasSubstr("<td class=\"text\">&lt;c&gt;</td><td></td>"),
                    HasSubstr("<td>[50.0, 75.0]</td>"), HasSubstr("aria-label=\"Rows\"")));
  EXPECT_THAT(table.latex(), AllOf(HasSubstr("\\begin{tabular}{lrrrrl}"), HasSubstr("95 \\%"),
                                   HasSubstr("a,b\\_1 & 1234 & [50.0, 75.0]"),
                                   HasSubstr("<c> & -- & -- & -- & 0 & -- \\\\\n")));
}

TEST(MetricsText, HasEveryMetricThatStepsEmit) {
  const std::string text = report::metrics_text();
  for (const StepMetric& metric : step_metrics())
    EXPECT_THAT(text,
                AllOf(HasSubstr(std::string(metric.name)), HasSubstr(std::string(metric.meaning))));
  // And vice versa: the table has every key of a line.
  const json line = json::parse(step_line(1, 1, 1));
  for (const auto& [key, value] : line.items()) {
    if (key == "step" || key == "timestamp") continue;
    EXPECT_TRUE(std::ranges::any_of(step_metrics(), [&](const StepMetric& metric) {
      return name_for(metric.name, ItemKind::tokens) == key;
    })) << key;
  }
}

}  // namespace
}  // namespace trireme::test
