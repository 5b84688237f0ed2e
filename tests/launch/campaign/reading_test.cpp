// SPDX-License-Identifier: Apache-2.0
// A campaign's inputs: its file, its state, Slurm's output, the logs of its jobs.
#include <gmock/gmock.h>

#include <ctime>
#include <fstream>

#include "launch/campaign/campaign_file.h"
#include "launch/campaign/cluster/job_end.h"
#include "launch/campaign/cluster/slurm_text.h"
#include "launch/campaign/layout_options.h"
#include "launch/campaign/state.h"
#include "tests/support/command.h"
#include "tests/support/expect_error.h"

namespace trireme::campaign {
namespace {

using test::expect_error;
using test::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;

CampaignFile parse(const std::string& text) {
  return parse_campaign(text, "c.yaml");
}

TEST(CampaignFile, ReadsEveryKey) {
  const CampaignFile file = parse(
      "config: a.yaml\nset: [train.steps=5]\ndirectory: /tmp/c\nnodes: {min: 2, max: 16}\n"
      "ranks_per_node: 8\nlayouts: [data=16, \"data=8:tensor=2\"]\n"
      "slurm: {partitions: [gpu, low], account: physics, qos: long, minutes: 60, options: "
      "[--gpus-per-node=8]}\nbudget: {node_hours: 100, end: \"2026-12-24T18:00:00Z\"}\n"
      "failures: {exclude_hours: 1, no_progress: 2, backoff_seconds: 3, health_check: true}\n"
      "better: {gain: 2, after_minutes: 5}\npoll_seconds: 10\n");
  EXPECT_TRUE(file.under_slurm());
  EXPECT_EQ(file.max_nodes, 16);
  EXPECT_EQ(file.run_directory(), "/tmp/c/run");
  EXPECT_THAT(file.slurm.partitions, ElementsAre("gpu", "low"));
  EXPECT_EQ(file.end, 1798135200);
  EXPECT_TRUE(file.health_check);
  EXPECT_EQ(file.where("nodes.max"), "c.yaml:4: nodes.max");
  const CampaignFile least = parse("config: a.yaml\nhosts: [a, b]\nnodes: {min: 2}\n");
  EXPECT_EQ(least.max_nodes, 2);
  EXPECT_THAT(least.directory, HasSubstr("campaigns/c"));
}

// From cron, a login shell or the repository: another directory would submit the same campaign's
// jobs twice.
TEST(CampaignFile, HasItsDirectoryBesideTheFile) {
  const auto directory = [](const std::string& line) {
    return parse_campaign("config: a.yaml\n" + line, "/some/place/c.yaml").directory;
  };
  EXPECT_EQ(directory(""), "/some/place/campaigns/c");
  EXPECT_EQ(directory("directory: ../mine\n"), "/some/mine");
  EXPECT_EQ(directory("directory: /tmp/c\n"), "/tmp/c");
}

TEST(CampaignFile, ReadsHostsFromAFile) {
  const TemporaryDirectory place;
  std::ofstream(place.path() + "/hosts") << "# ours\nn1 slots=8\n\n  n2\n";
  EXPECT_THAT(parse("config: a.yaml\nhosts: " + place.path() + "/hosts\n").hosts,
              ElementsAre("n1", "n2"));
  expect_error(
      ExitCode::config, [] { (void)parse("config: a.yaml\nhosts: /none\n"); }, "/none");
}

TEST(CampaignFile, RefusesWithPlaceValueAndFix) {
  const auto refuses = [](const std::string& text, const std::string& message) {
    expect_error(
        ExitCode::config, [&] { (void)parse("config: a.yaml\n" + text); }, message);
  };
  refuses("node: 3\n", "c.yaml:2: node: unknown key");
  refuses("nodess: {min: 1}\n", "c.yaml:2: nodess: unknown key; did you mean nodes?");
  refuses("nodes: {mim: 3}\n", "c.yaml:2: nodes.mim: unknown key; did you mean nodes.min?");
  refuses("nodes: 3\n", "c.yaml:2: nodes: has keys of its own; give some of nodes.min, nodes.max");
  refuses("hosts: [a:2]\n", "c.yaml:2: hosts: 'a:2' is not the name of a host; write only names");
  refuses("hosts: [a, -oProxyCommand=b]\n", "'-oProxyCommand=b' is not the name of a host");
  refuses("hosts: []\n", "c.yaml:2: hosts: expected a list of 1 to 1024 values, found 0");
  refuses("slurm: {partitions: []}\n",
          "c.yaml:2: slurm.partitions: expected a list of 1 to 1024 values");
  refuses("nodes: {min: 0}\n", "c.yaml:2: nodes.min: 0 is out of range; allowed: 1 to 65536");
  refuses("nodes: {min: many}\n", "expected an integer, found the text \"many\"");
  refuses("nodes: {min: 4, max: 2}\n",
          "c.yaml:2: nodes.min: 4 is more than nodes.max: 2; use nodes: {min: 2, max: 4}");
  refuses("hosts: [a]\nnodes: {min: 2}\n", "2 nodes, but hosts has 1; use at most 1");
  refuses("hosts: [a, a]\n", "c.yaml:2: hosts: a is named twice");
  refuses("hosts: [a]\nslurm: {account: x}\n", "c.yaml:3: slurm.account: has no effect with hosts");
  refuses("budget: {end: tomorrow}\n", "'tomorrow' is not a date; write a UTC date such as");
  refuses("better: {gain: 0.5}\n", "allowed: 0, or 1 and above");
  refuses("layouts: [data=x]\n", "c.yaml:2: layouts: ");
  refuses("set: [run.directory=x]\n", "set directory instead");
  refuses("failures: {health_check: perhaps}\n", "expected true or false");
  refuses("slurm: {account: \"\"}\n", "must not be empty");
  expect_error(
      ExitCode::config, [] { (void)parse("nodes: {min: 1}\n"); }, "config: missing");
  expect_error(
      ExitCode::config, [] { (void)parse("- a\n"); }, "c.yaml:1: expected keys");
  expect_error(
      ExitCode::config, [] { (void)load_campaign("/none.yaml"); }, "/none.yaml");
}

// Not a matcher, which would print both texts.
TEST(CampaignFile, KeysAreInTheReadme) {
  const std::string readme = test::read_file(TRIREME_LAUNCH "/campaign/README.md");
  EXPECT_TRUE(readme.find(campaign_keys_markdown()) != std::string::npos)
      << "put this there:\n"
      << campaign_keys_markdown();
  EXPECT_EQ(campaign_keys_text().find_first_of("|`"), std::string::npos) << campaign_keys_text();
}

TEST(CampaignFile, OfTheExampleIsRead) {
  EXPECT_EQ(load_campaign(TRIREME_LAUNCH "/examples/campaign.yaml").max_nodes, 16);
}

TEST(CampaignLayouts, AreThoseThatTheConfigAllows) {
  CampaignFile file = parse("config: " TRIREME_CONFIGS
                            "/gpt_tiny.yaml\nranks_per_node: 2\nnodes: {min: 1, max: 3}\n");
  const CampaignLayouts own = campaign_layouts(file);
  ASSERT_EQ(own.options.size(), 2U);  // 6 ranks do not share 4 micro-batches
  EXPECT_EQ(own.options[0].text, "data=2 zero=1");
  EXPECT_EQ(own.options[1].nodes, 2);
  EXPECT_EQ(own.steps, 1950);
  EXPECT_EQ(text_of(own),
            "1950 steps, 2 layouts, of 1 to 2 nodes; reproducibility is not `layout`, so results "
            "depend on which jobs run");

  file.layouts = {"data=2:tensor=2", "pipeline=2"};
  const CampaignLayouts listed = campaign_layouts(file);
  ASSERT_EQ(listed.options.size(), 2U);  // 3 data ranks have 2, 1 and 1 of them, 2 as many
  EXPECT_THAT(listed.options[0].settings, testing::Contains("parallel.pipeline=2"));

  file.layouts = {"data=7"};
  expect_error(
      ExitCode::config, [&] { (void)campaign_layouts(file); }, "c.yaml",
      "none of 3 numbers of nodes from 1 to 3, of 2 ranks each",
      "no layout in the list makes 2 ranks");
}

TEST(CampaignLayouts, AreThePlannersWithAHardwareFile) {
  CampaignFile file = parse("config: " TRIREME_CONFIGS
                            "/gpt_tiny.yaml\nranks_per_node: 2\nnodes: {min: 1, max: 2}\n");
  file.set = {"precision=fp32", "parallel.hardware=" TRIREME_CONFIGS "/hardware/cpu_example.yaml"};
  const CampaignLayouts planned = campaign_layouts(file);
  ASSERT_EQ(planned.options.size(), 2U);
  EXPECT_GT(planned.options[0].step_seconds, 0);
}

TEST(CampaignState, SurvivesItsFile) {
  const TemporaryDirectory place;
  EXPECT_EQ(load_state(place.path()), std::nullopt);
  CampaignState state{.id = "0123abcd", .created = 5, .text = "tab\t\"quote\"", .steps = 7};
  state.attempts.push_back(
      {.number = 1, .name = "trireme-0123abcd-0001", .hosts = {"n1"}, .code = 5});
  state.exclude("n1", "died", 99);
  save_state(place.path(), state);
  const CampaignState again = load_state(place.path()).value();
  EXPECT_EQ(again.attempts.at(0).name, "trireme-0123abcd-0001");
  EXPECT_EQ(again.attempts.at(0).phase, Attempt::Phase::intended);
  EXPECT_EQ(again.text, state.text);
  EXPECT_EQ(again.excluded.at(0).until, 99);
  std::ofstream(state_file_in(place.path())) << "{\"version\": 1}";
  expect_error(
      ExitCode::config, [&] { (void)load_state(place.path()); }, "campaign.json",
      "restore it, or choose another directory");
  std::ofstream(state_file_in(place.path())) << "{\"version\": 9}";
  expect_error(
      ExitCode::config, [&] { (void)load_state(place.path()); }, "is of version 9");
}

TEST(SlurmText, FindsIdleNodes) {
  const std::string text =
      "n1|idle\nn2|idle*\nn3|allocated\nn4|idle~\nn5|down\nn6|mixed\nn1|idle\n";
  EXPECT_THAT(idle_nodes(text, {}, {}), ElementsAre("n1", "n4"));
  EXPECT_THAT(idle_nodes(text, {"n4"}, {"n3"}), ElementsAre("n1", "n3"));
  EXPECT_THAT(broken_nodes(text), ElementsAre("n2", "n5"));
}

TEST(SlurmText, ReadsDatesCodesAndFields) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(expected_start("sbatch: Job 7 to start at 2026-11-24T01:45:00 using 4 processors on"),
            1795484700);
  EXPECT_EQ(expected_start("sbatch: error: no"), std::nullopt);
  EXPECT_EQ(local_seconds("Unknown"), std::nullopt);
  const auto fields = job_fields("JobId=7 JobState=FAILED ExitCode=5:0 Command=/a=b");
  EXPECT_EQ(fields.at("JobState"), "FAILED");
  EXPECT_EQ(fields.at("Command"), "/a=b");
  EXPECT_EQ(code_in_log("x the run ended with exit code 5\ny the run ended with exit code 75\n"),
            75);
  EXPECT_EQ(code_in_log("nothing"), std::nullopt);
}

TEST(SlurmText, DistinguishesPermanentRefusals) {
  EXPECT_TRUE(is_permanent(
      "allocation failure: Invalid account or account/partition combination specified"));
  EXPECT_TRUE(is_permanent("Invalid partition name specified"));
  EXPECT_FALSE(is_permanent(
      "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"));
  EXPECT_FALSE(is_permanent("Requested node configuration is not available"));
  EXPECT_TRUE(never_starts("PENDING (AssocGrpCPUMinutesLimit)"));
  EXPECT_FALSE(never_starts("PENDING (Resources)"));
  EXPECT_THAT(std::string(advice_for("PENDING (AssocGrpCPUMinutesLimit)")), HasSubstr("no budget"));
  EXPECT_THAT(std::string(advice_for("Invalid qos specification")), HasSubstr("slurm.qos"));
}

TEST(Blame, NamesHostsOfRanksThatDiedOrFellSilent) {
  const std::vector<std::string> hosts{"n1", "n2", "n3"};
  EXPECT_THAT(blamed_hosts("[rank 3/6 n2] error: ended by signal 9 (Killed), and the job with it",
                           hosts, 2),
              ElementsAre(Blame{"n2", "rank 3 ended by signal 9 (Killed), and the job with it"}));
  EXPECT_THAT(blamed_hosts("  rank 5 does not answer: the process is stopped", hosts, 2),
              ElementsAre(Blame{"n3", "rank 5 did not answer"}));
  EXPECT_TRUE(blamed_hosts("[rank 0/6 n1] error: checkpoint: disk full", hosts, 2).empty());
  EXPECT_TRUE(blamed_hosts("rank 99999999999999 does not answer", hosts, 2).empty());
}

TEST(JobEnd, MapsExitCodesToActions) {
  using enum NextStep;
  const std::vector<std::pair<int, NextStep>> expected = {
      {0, none},    {1, restart}, {2, give_up},  {3, give_up},  {4, restart},  {5, restart},
      {6, give_up}, {7, restart}, {75, requeue}, {93, restart}, {137, restart}};
  for (const auto& [code, next] : expected)
    EXPECT_EQ(next_step(code), next) << code;
  EXPECT_EQ(name_of(give_up), "give up");
  for (const char* const text : {"r/x: the disk is full (ENOSPC)", "your disk quota is used up",
                                 "r: is in use by process 5", "n2 is lost: the daemon there"})
    EXPECT_TRUE(may_pass(text)) << text;
  EXPECT_FALSE(may_pass("train.stps: unknown key"));
}

TEST(Blame, RecognisesErrorsThatWouldRepeat) {
  const std::string said = "[rank 0/2 n1] error: c.yaml:3: train.stps: unknown key\n";
  EXPECT_TRUE(would_come_again(2, said));
  EXPECT_TRUE(would_come_again(3, said));
  EXPECT_TRUE(would_come_again(6, ""));
  EXPECT_TRUE(would_come_again(
      4, "[rank 0/2 h] error: r/step_2: is of another model or optimizer than the config:\n"));
  EXPECT_FALSE(would_come_again(4, said));
  EXPECT_TRUE(would_come_again(2, "2026-11-24 train.sbatch: a rank is one task with one GPU\n"));
  EXPECT_FALSE(would_come_again(5, said));
  EXPECT_FALSE(would_come_again(75, said));
  // The rest of a log on a full disk.
  EXPECT_FALSE(would_come_again(
      2, "srun: error: n2: task 1: Killed\ntrain.sbatch: the run ended with exit code 2\n"));
  EXPECT_FALSE(would_come_again(
      2, "[rank 0/1] error: owner.json: cannot be written: No space left on device"));
  EXPECT_FALSE(would_come_again(2, "[rank 0/1] error: run.directory: r: is in use by process 5"));
}

TEST(Blame, NamesHostsOfADoctorsProblemsUnlessAllHaveThem) {
  const std::vector<std::string> hosts{"n1", "n2"};
  EXPECT_EQ(
      blamed_hosts("PROBLEM  memory         4 GiB are free  [ranks 2-3]\n", hosts, 2).at(0).host,
      "n2");
  EXPECT_EQ(blamed_hosts("PROBLEM  data           data.path is not on n1\n", hosts, 2).at(0).host,
            "n1");
  EXPECT_TRUE(blamed_hosts("PROBLEM  config         wrong  [all ranks]\n", hosts, 2).empty());
  EXPECT_TRUE(blamed_hosts("PROBLEM  link           n1 - n2: slow\n", hosts, 2).empty());
  EXPECT_EQ(last_message("a\n[rank 1/2 h] error: bad thing\nmpirun noticed\n"), "bad thing");
  EXPECT_EQ(
      last_message("[rank 0/2 h] error: another model:\n  a is in it\n  use its config\nend\n"),
      "another model: a is in it; use its config");
  EXPECT_EQ(last_message("lost n2\n-----\n[x] [info] [0] [train] step 1\n"), "lost n2");
}

}  // namespace
}  // namespace trireme::campaign
