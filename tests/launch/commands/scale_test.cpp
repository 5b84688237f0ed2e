// SPDX-License-Identifier: Apache-2.0
// `trireme scale`: real studies of a tiny model, and the arithmetic of their reports.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "launch/plan/layout_search.h"
#include "launch/study/scale/report.h"
#include "models/config.h"
#include "runtime/base/process.h"
#include "tests/launch/fixture/run_fixture.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Not;

constexpr double rounding = 1e-9;

class ScaleTest : public RunTest {
 protected:
  [[nodiscard]] std::string out() const { return directory() + "/study"; }
  [[nodiscard]] std::string scale(const std::string& options) const {
    return fmt::format("{} scale {}/gpt.yaml --out {} {}", TRIREME_BINARY, data_directory(), out(),
                       options);
  }
  [[nodiscard]] json report() const { return json::parse(read_file(out() + "/scaling.json")); }
};

// The page without its scripts, which do not nest.
std::string without_scripts(std::string html) {
  for (std::size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script"))
    html.erase(at, html.find("</script>", at) + 9 - at);
  return html;
}

// Every element is closed in order, and every attribute is quoted.
void expect_well_formed(const std::string& page) {
  const std::string html = without_scripts(page);
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos) << html.substr(at, 80);
    const std::string tag = html.substr(at + 1, end - at - 1);
    EXPECT_EQ(std::ranges::count(tag, '"') % 2, 0) << tag;
    EXPECT_THAT(tag, Not(HasSubstr("<")));
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (name == "!DOCTYPE" || name == "meta" || tag.back() == '/') continue;
    if (name.front() == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(name.substr(1), open.back());
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

TEST_F(ScaleTest, LossesOfEveryPointAddUpToItsGap) {
  const CommandResult result = run_command(
      scale(
          "--ranks 1,2,3 --layouts data=1,data=2,pipeline=2,tensor=2,data=3 --repeats 1 --steps 5 "
          "--warmup 2 --set train.global_batch=4 --set train.micro_batch=1"),
      300);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json points = report()["points"];
  ASSERT_EQ(points.size(), 5U);
  for (const json& point : points) {
    double losses = 0;
    for (const auto& [name, seconds] : point["loss_seconds"].items())
      losses += seconds.get<double>();
    const double step = point["step_seconds"], gap = point["gap_seconds"];
    EXPECT_THAT(losses, DoubleNear(gap, rounding)) << point;
    EXPECT_THAT(point["efficiency"]["median"].get<double>(), DoubleNear(1 - gap / step, rounding));
    // Weak scaling keeps a rank's work, whatever the ranks share out.
    EXPECT_EQ(point["global_batch"], 4 * point["ranks"].get<int>());
    EXPECT_THAT(point["ideal_seconds"].get<double>(),
                DoubleNear(points[0]["step_seconds"], rounding));
    const int cores = point["cores_per_host"];
    EXPECT_GE(cores, 1);
    EXPECT_EQ(point["shares_cores"], point["ranks"].get<int>() > cores) << point;
  }
  const json study = report();
  EXPECT_EQ(study["hosts"].size(), 1U);
  EXPECT_EQ(study["cpus"].size(), 1U);
  EXPECT_EQ(study["device"], "cpu");
  EXPECT_EQ(study["launcher"], "mpirun");
  EXPECT_THAT(study["first_run_started"].get<std::string>(), ContainsRegex("^20[0-9-]+T.*Z$"));
  EXPECT_THAT(result.output, HasSubstr(study["hosts"][0].get<std::string>()));
  EXPECT_GT(points[2]["loss_seconds"]["bubble"], 0.0) << points[2];
  EXPECT_GT(points[3]["loss_seconds"]["exposed_comm"], 0.0) << points[3];
  EXPECT_EQ(std::ranges::count(read_file(out() + "/scaling.csv"), '\n'), 6);
  EXPECT_TRUE(std::filesystem::exists(out() + "/runs/weak-3-data=3-1/run/metrics.jsonl"));
  const std::string html = without_scripts(read_file(out() + "/scaling.html"));
  expect_well_formed(html);
  EXPECT_THAT(html, AllOf(HasSubstr("prefers-color-scheme: dark"), HasSubstr("@media print"),
                          HasSubstr("<div id=\"study-weak\">"), Not(HasSubstr("href")),
                          Not(HasSubstr("src="))));
}

TEST_F(ScaleTest, WeakAndStrongScalingShareTheRunsThatAreTheSame) {
  const std::string study =
      "--ranks 1,2 --mode both --repeats 2 --steps 3 --warmup 1 --set train.micro_batch=1";

  const CommandResult result = run_command(scale(study), 300);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("6 runs, 0 of them are there already"),
                    HasSubstr("] weak and strong scaling, 1 ranks as data=1, run 1: ")));
  const json points = report()["points"];
  EXPECT_EQ(points[0]["mode"], "weak");
  EXPECT_EQ(points[2]["mode"], "strong");
  EXPECT_EQ(points[0]["runs"], points[2]["runs"]);
  EXPECT_NE(points[1]["runs"], points[3]["runs"]);

  // No run took a negative time.
  const std::string file = out() + "/runs/weak-1-data=1-2/result.json";
  json forged = json::parse(read_file(file));
  forged["period"] = -1;
  write_file(file, forged.dump());
  const CommandResult again = run_command(scale(study + " --resume"), 300);

  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("6 runs, 5 of them are there already"));
  EXPECT_GT(report()["points"][0]["step_seconds"], 0.0);
}

TEST_F(ScaleTest, ImageConfigsAreRefused) {
  const std::string plot = "python3 " TRIREME_SCRIPTS "/plot_scaling.py ";
  const CommandResult none = run_command(plot + directory());
  write_file(directory() + "/scaling.json", "{\"points\": 3}");
  const CommandResult broken = run_command(plot + directory());

  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.output, AllOf(HasSubstr("scaling.json: No such file or directory; give"),
                                 Not(HasSubstr("Traceback"))));
  EXPECT_THAT(broken.output,
              AllOf(HasSubstr("is no report of trireme scale"), Not(HasSubstr("Traceback"))));
}

TEST_F(ScaleTest, AFailedRunIsRecordedAndTheSweepGoesOn) {
  // The study's jobs find this mpirun first.
  std::filesystem::create_directory(directory() + "/bin");
  write_file(directory() + "/bin/mpirun",
             "#!/bin/sh\n"
             "for word in \"$@\"; do\n"
             "  case $word in parallel.data=2) echo 'the switch is off' >&2; exit 9 ;; esac\n"
             "done\n"
             "exec " TRIREME_MPIEXEC " \"$@\"\n");
  std::filesystem::permissions(directory() + "/bin/mpirun", std::filesystem::perms::owner_all);
  const std::string study =
      "--ranks 1,2,3 --repeats 1 --steps 3 --warmup 1 --set "
      "train.global_batch=6 --set train.micro_batch=1 --mode strong";

  const CommandResult result =
      run_command(fmt::format("PATH={}/bin:$PATH {}", directory(), scale(study)), 300);

  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("failed with code 9: the switch is off"));
  const json failed = report()["points"];
  EXPECT_EQ(failed[1]["runs"][0]["state"], "failed");
  EXPECT_EQ(failed[1]["runs"][0]["code"], 9);
  EXPECT_EQ(failed[2]["runs"][0]["state"], "done");
  EXPECT_THAT(read_file(out() + "/scaling.html"), HasSubstr("the switch is off"));

  const CommandResult again = run_command(scale(study + " --resume"), 300);

  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("3 runs, 2 of them are there already"));
}

TEST_F(ScaleTest, AnInterruptedStudyResumes) {
  const std::string study =
      "--ranks 1,2 --repeats 1 --order given --warmup 1 --set train.global_batch=64 ";
  const std::string first = out() + "/runs/weak-1-data=1-1/result.json";
  const std::string second = out() + "/runs/weak-2-data=2-1/run/metrics.jsonl";
  // Steps take 2 ms on a fast machine: long enough to interrupt the second run.
  const std::string command = scale(study + "--steps 1500");

  const CommandResult cut = run_command(
      fmt::format(
          "{} & study=$!; for i in $(seq 600); do [ -e {} ] && [ -s {} ] && break; sleep "
          "0.1; done; kill -INT $study; wait $study; echo code $?; pgrep -af \"[t]rain .*{}\"",
          command, first, second, out()),
      200);

  EXPECT_THAT(cut.output, HasSubstr("--resume continues the study"));
  EXPECT_THAT(cut.output, HasSubstr("code 75\n"));
  EXPECT_THAT(cut.output, Not(ContainsRegex("code 75\n[0-9]")));  // no line of the job is left
  EXPECT_EQ(report()["points"][1]["runs"][0]["state"], "not run");

  const CommandResult result = run_command(command + " --resume", 300);

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("2 runs, 1 of them are there already"),
                                   HasSubstr("[1/1] weak scaling, 2 ranks as data=2, run 1: ")));

  // A study of a version that did not have a key yet.
  std::string settings = read_file(out() + "/study.json");
  const std::string key = "\\n  zero_group: all";
  ASSERT_NE(settings.find(key), std::string::npos) << settings;
  write_file(out() + "/study.json", settings.erase(settings.find(key), key.size()));
  const CommandResult older = run_command(command + " --resume");

  EXPECT_EQ(older.exit_code, 0) << older.output;
  EXPECT_THAT(older.output, HasSubstr("2 runs, 2 of them are there already"));

  const CommandResult other = run_command(scale(study + "--steps 1499 --resume"));

  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("holds another study: --steps: '1500' there, '1499' now"));
  EXPECT_THAT(run_command(command).output, HasSubstr("holds a study already; continue it with"));
}

TEST_F(ScaleTest, RefusesBeforeItStartsAnything) {
  const auto refusal = [&](const std::string& options) {
    const CommandResult result = run_command(scale(options));
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_FALSE(std::filesystem::exists(out())) << options;
    return result.output;
  };

  EXPECT_THAT(refusal("--ranks 1,2 --layouts data=1"), HasSubstr("makes 2 ranks; add one"));
  EXPECT_THAT(refusal("--ranks 1,x"), HasSubstr("--ranks: 'x' is not a whole number"));
  EXPECT_THAT(refusal("--layouts model=2"), HasSubstr("'model=2' is not an axis"));
  EXPECT_THAT(refusal("--steps 5 --warmup 5"), HasSubstr("are left to measure"));
  EXPECT_THAT(refusal("--ranks 1,5 --mode strong"), HasSubstr("strong scaling, 5 ranks as data=5"));
  EXPECT_THAT(refusal("--ranks 1 --jobs 2"), HasSubstr("would disturb each other"));
  EXPECT_THAT(
      trireme(fmt::format("scale {}/gpt.yaml --ranks 1 --out /proc/study", data_directory()))
          .output,
      HasSubstr("--out: /proc/study cannot be made"));
}

scale::RunResult result_of(const Times& parts) {
  return {.command = 0, .code = 0, .error = {}, .parts = parts};
}

TEST(ScaleSplit, TakesTheMedianRunAndTheSpreadOfAll) {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  const std::vector<scale::Row> rows = scale::attribute(
      {{base, {result_of({{TimePart::period, 1}, {TimePart::compute, 1}})}},
       {point,
        {result_of({{TimePart::period, 2}, {TimePart::compute, 1}, {TimePart::exposed_comm, 1}}),
         result_of({{TimePart::period, 1.25}, {TimePart::compute, 1}, {TimePart::straggler, 0.25}}),
         std::nullopt, result_of({{TimePart::period, 4}, {TimePart::compute, 4}})}}});

  EXPECT_DOUBLE_EQ(rows[1].parts[TimePart::period], 2);
  EXPECT_DOUBLE_EQ(rows[1].loss->efficiency.median, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].loss->efficiency.min, 0.25);
  EXPECT_DOUBLE_EQ(rows[1].loss->efficiency.max, 0.8);
  EXPECT_EQ(rows[1].loss->parts, (std::array<double, 6>{1, 0, 0, 0, 0, 0}));
}

TEST(ScaleSplit, OfAnEvenNumberOfRunsTheMiddleTwoCount) {
  const scale::Point point{.mesh = {.data = 1}, .global_batch = 6};
  const std::vector<scale::Row> rows = scale::attribute(
      {{point,
        {result_of({{TimePart::period, 4}, {TimePart::compute, 3}, {TimePart::data_wait, 1}}),
         result_of({{TimePart::period, 9}}), result_of({{TimePart::period, 1}}),
         result_of(
             {{TimePart::period, 2}, {TimePart::compute, 1}, {TimePart::exposed_comm, 1}})}}});

  EXPECT_DOUBLE_EQ(rows[0].parts[TimePart::period], 3);
  EXPECT_DOUBLE_EQ(rows[0].parts[TimePart::compute], 2);
  EXPECT_DOUBLE_EQ(rows[0].parts[TimePart::data_wait], 0.5);
  EXPECT_DOUBLE_EQ(rows[0].parts[TimePart::exposed_comm], 0.5);
  EXPECT_DOUBLE_EQ(rows[0].samples_per_second.median, 2);
}

TEST_F(ScaleTest, StepsOfARunThatWasStoppedAreNoResult) {
  const std::string path = directory() + "/time_split.jsonl";
  std::string lines;
  for (int step = 1; step <= 4; ++step) {
    lines +=
        R"({"period_ms":2,"compute_ms":1,"between_steps_ms":0.5,"data_wait_ms":0.5,"bubble_ms":0,)"
        R"("straggler_ms":0,"exposed_comm_ms":0,"core_wait_ms":0.3,"core_straggler_ms":0,"slowest_rank":0})"
        "\n";
  }
  write_file(path, lines);

  const Times parts = scale::read_time_split(path, 1, 4).parts;
  EXPECT_DOUBLE_EQ(parts[TimePart::period], 2e-3);
  EXPECT_NEAR(parts[TimePart::core_wait], 0.3e-3, 1e-12);
  EXPECT_NEAR(parts[TimePart::compute], 1.2e-3, 1e-12) << "with the time between steps";
  expect_error(
      ExitCode::data, [&] { static_cast<void>(scale::read_time_split(path, 1, 40)); },
      "4 of 40 steps");
}

TEST_F(ScaleTest, TheTimeToALossIsThatOfAllStepsUpToIt) {
  const CommandResult result = run_command(
      scale("--ranks 1,2 --mode fixed-loss --target-loss 5.3 --loss-window 2 --repeats 2 --steps 8 "
            "--set train.micro_batch=1"),
      300);

  ASSERT_EQ(result.exit_code, 0) << result.output;
  const json points = report()["points"];
  ASSERT_EQ(points.size(), 2U);
  for (const json& point : points) {
    EXPECT_EQ(point["mode"], "fixed-loss");
    EXPECT_GE(point["steps_to_loss"], 2);
    EXPECT_LT(point["steps_to_loss"], 8);
    double losses = 0;
    for (const auto& [name, seconds] : point["loss_seconds"].items())
      losses += seconds.get<double>();
    EXPECT_THAT(losses, DoubleNear(point["gap_seconds"], rounding));
    // The information to repeat it.
    for (const json& run : point["runs"]) {
      EXPECT_THAT(run["command"].get<std::string>(), HasSubstr("--set run.directory="));
      EXPECT_THAT(run["certificate"].get<std::string>(), testing::StartsWith("0x"));
    }
    EXPECT_EQ(point["runs"][0]["certificate"], point["runs"][1]["certificate"]);
    EXPECT_GT(point["flops_per_second_and_rank"]["model"],
              point["flops_per_second_and_rank"]["six_n"]);
  }
  EXPECT_TRUE(points[1].contains("efficiency_interval"));
  EXPECT_THAT(read_file(out() + "/scaling.tex"), HasSubstr("\\begin{tabular}"));
  EXPECT_THAT(run_command(scale("--mode fixed-loss")).output, HasSubstr("needs --target-loss"));
}

TEST(ScaleWork, CountsRecomputationInHardwareFlopsAlone) {
  Config config = parse_config(
      "model: {family: gpt2, layers: 4, hidden: 64, heads: 4, context: 32, vocabulary: 256}\n",
      "test", {});
  config.parallel.data = 1;
  const scale::PointWork none = scale::work_of(config);
  config.train.recompute = Recompute::full;
  const scale::PointWork full = scale::work_of(config);

  EXPECT_LT(none.six_n, none.model);
  EXPECT_EQ(none.hardware, none.model);
  EXPECT_EQ(full.model, none.model);
  EXPECT_GT(full.hardware, 1.2 * full.model);
  EXPECT_LT(full.hardware, 4.0 / 3.0 * full.model);
}

TEST(Launcher, ScriptsAreThoseOfTheProgramWhereverItIsStarted) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path("/");
  for (const char* const name : {"launch/mpi_run.sh", "scripts/peers/bench_h5py.py"})
    EXPECT_TRUE(std::filesystem::exists(own_script(name))) << name;
  std::filesystem::current_path(here);
  EXPECT_EQ(own_script("launch/none.sh"), "");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("a=1,b"), "a=1,b");
}

TEST_F(ScaleTest, ImpossibleResultsDoNotCount) {
  const std::string file = directory() + "/result.json";
  scale::RunResult result =
      result_of({{TimePart::period, 2}, {TimePart::compute, 1}, {TimePart::bubble, 1}});
  result.slowest_rank = 1;
  result.place = {.hosts = {"a"},
                  .ranks_per_host = 2,
                  .cpu = "x",
                  .cores = 1,
                  .device = "cpu",
                  .started = "now"};
  scale::save_result(file, result);
  const json good = json::parse(read_file(file));
  const auto there = scale::load_result(file, 2);
  ASSERT_TRUE(there);
  EXPECT_TRUE(there->place.shares_cores());
  EXPECT_DOUBLE_EQ(there->parts[TimePart::bubble], 1);

  EXPECT_FALSE(scale::load_result(file, 1));  // it names a rank that is not there
  for (const auto& [key, value] : std::vector<std::pair<std::string, json>>{{"period", 0},
                                                                            {"period", -2},
                                                                            {"compute", -1},
                                                                            {"bubble", nullptr},
                                                                            {"data_wait", "1"},
                                                                            {"slowest_rank", -1},
                                                                            {"command", 5},
                                                                            {"place", 3}}) {
    json changed = good;
    changed[key] = value;
    write_file(file, changed.dump());
    EXPECT_FALSE(scale::load_result(file, 2)) << key << " " << value;
  }
  std::filesystem::remove(file);
  ASSERT_EQ(run_command("mkfifo " + file).exit_code, 0);
  EXPECT_FALSE(scale::load_result(file, 2));
}

TEST(ScaleSplit, StrongScalingExpectsEachRankToDoItsShare) {
  const scale::Point base{.mode = scale::Mode::strong, .mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mode = scale::Mode::strong, .mesh = {.data = 4}, .global_batch = 8};

  const std::vector<scale::Row> rows = scale::attribute(
      {{base,
        {result_of({{TimePart::period, 8}, {TimePart::compute, 7}, {TimePart::data_wait, 1}})}},
       {point, {result_of({{TimePart::period, 2.5}, {TimePart::compute, 2.5}})}}});

  EXPECT_DOUBLE_EQ(rows[1].loss->ideal, 2);
  EXPECT_DOUBLE_EQ(rows[1].loss->efficiency.median, 0.8);
  EXPECT_EQ(rows[1].loss->parts, (std::array<double, 6>{0, 0, -0.25, 0, 0, 0.75}));
}

TEST(ScaleSplit, WithoutABaseThereIsNoEfficiency) {
  const scale::Point base{.mesh = {.data = 1}, .global_batch = 8};
  const scale::Point point{.mesh = {.data = 2}, .global_batch = 16};
  scale::RunResult failed;
  failed.code = 5;
  failed.error = "a \"<cut>\" & lost link";

  const std::vector<scale::Row> rows = scale::attribute(
      {{base, {failed}}, {point, {result_of({{TimePart::period, 1}, {TimePart::compute, 1}})}}});
  scale::Study study;
  study.options.config = "a.yaml";
  study.traits.item_name = "tokens";

  EXPECT_EQ(rows[0].good, 0);
  EXPECT_FALSE(rows[1].loss);
  const std::string html = scale::html_report(study, rows);
  expect_well_formed(html);
  EXPECT_THAT(html, HasSubstr("a &quot;&lt;cut&gt;&quot; &amp; lost link"));
  const std::string csv = scale::csv_report(study, rows);
  std::vector<std::ptrdiff_t> commas(3);
  std::size_t line = 0;
  for (const char letter : csv) {
    if (letter == ',') ++commas[line];
    if (letter == '\n') ++line;
  }
  EXPECT_THAT(commas, testing::Each(commas[0]));
}

TEST_F(ScaleTest, PlannedLayoutsAreWhatThePlannerFindsFastest) {
  scale::StudyOptions options;
  options.config = data_directory() + "/gpt.yaml";
  options.overrides = {std::string("parallel.hardware=") + TRIREME_HARDWARE_FILE};
  options.ranks = {1, 4};
  const scale::Study study = scale::plan_study(options);

  ASSERT_EQ(study.points.size(), 2U);
  const scale::Point& point = study.points[1];
  EXPECT_EQ(point.ranks(), 4);
  EXPECT_EQ(point.global_batch, 4 * study.points[0].global_batch);
  Config config = load_config(options.config, options.overrides);
  config.train.global_batch = point.global_batch;
  LayoutSearch search(config, 4, plan::load_hardware(TRIREME_HARDWARE_FILE));
  const auto arguments = study.arguments(point, "run");
  std::vector<std::string> overrides;
  for (std::size_t i = 4; i < arguments.size(); i += 2)
    overrides.push_back(arguments[i]);
  EXPECT_EQ(choice_of(load_config(options.config, overrides)),
            choice_of(search.fastest(1)[0].config));
}

TEST(ScaleLayouts, FillInTheDataRanksThatAreLeft) {
  const auto layouts = scale::parse_layouts("data=4,tensor=2:pipeline=3,data=2:spatial=1x2x3");

  EXPECT_EQ(layouts[0].mesh, (MeshShape{.data = 4}));
  EXPECT_EQ(layouts[1].mesh, (MeshShape{.pipeline = 3, .data = 0, .tensor = 2}));
  EXPECT_EQ(layouts[2].mesh, (MeshShape{.data = 2, .tensor = 6}));
  EXPECT_EQ(layouts[2].text(), "data=2:spatial=1x2x3");
  auto sequences = scale::parse_layouts("data=2:context=4,context=3:tensor=2");
  EXPECT_EQ(sequences[0].mesh, (MeshShape{.data = 8, .context = 4}));
  EXPECT_EQ(sequences[0].text(), "data=2:context=4");
  EXPECT_FALSE(sequences[1].fit(8));
  EXPECT_TRUE(sequences[1].fit(12));
  EXPECT_EQ(sequences[1].mesh, (MeshShape{.data = 6, .tensor = 2, .context = 3}));
  EXPECT_EQ(sequences[1].text(), "data=2:tensor=2:context=3");
  EXPECT_EQ(scale::parse_ranks("8,1,2,2"), (std::vector<int>{1, 2, 8}));
  expect_error(
      ExitCode::config, [] { (void)scale::parse_layouts("data=0"); }, "not a whole number above 0");
  expect_error(
      ExitCode::config, [] { (void)scale::parse_layouts("spatial=2x2"); },
      "'2x2' is not the ranks along depth, height and width");
  expect_error(
      ExitCode::config, [] { (void)scale::parse_layouts("tensor=2:spatial=2x1x1"); },
      "tensor and spatial");
}

}  // namespace
}  // namespace trireme::test
