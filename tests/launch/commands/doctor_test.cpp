// SPDX-License-Identifier: Apache-2.0
// `trireme doctor` alone and under mpirun, with configs that can and cannot run.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "launch/doctor/job_check.h"
#include "launch/doctor/judge.h"
#include "tests/launch/fixture/launcher.h"

namespace trireme::test {
namespace {

using doctor::Findings;
using testing::AllOf;
using testing::HasSubstr;

TEST(DoctorTable, GroupsEqualFindingsOfRanksAndCountsProblems) {
  Findings a, b, c;
  for (Findings* findings : {&a, &b, &c})
    findings->fine("cpu", "fast");
  a.note("cores", "too few", "start fewer ranks");
  c.note("cores", "too few", "start fewer ranks");
  b.problem("gpu", "none", "get one");
  const std::vector<Findings> ranks{a, b, c};

  EXPECT_EQ(doctor::table(ranks),
            "ok       cpu            fast  [all ranks]\n"
            "note     cores          too few  [ranks 0, 2]\n"
            "                        -> start fewer ranks\n"
            "PROBLEM  gpu            none  [rank 1]\n"
            "                        -> get one\n"
            "1 problem, 1 note\n");
  EXPECT_EQ(doctor::problems(ranks), 1);
}

TEST(DoctorTable, FindingsSurviveTheWayToAnotherRank) {
  Findings findings;
  findings.problem("data", "\"quoted\"\n\t\xff", "");
  findings.fine("cpu", "");

  const Findings parsed = Findings::parse(findings.serialized());

  ASSERT_EQ(parsed.all().size(), 2U);
  EXPECT_EQ(parsed.all()[0].severity, doctor::Severity::problem);
  EXPECT_EQ(parsed.all()[1], findings.all()[1]);
}

CudaFacts host_with(const std::vector<std::string>& gpus) {
  CudaFacts facts;
  for (const std::string& name : gpus) {
    GpuFacts gpu;
    gpu.name = name;
    gpu.capability = 90;
    gpu.memory_bytes = 80ULL << 30;
    facts.gpus.push_back(gpu);
  }
  return facts;
}

TEST(DoctorGpus, MixedTypesAreNamedWithTheirHosts) {
  const CudaFacts fast = host_with({"H100", "H100"}), mixed = host_with({"H100", "A100"});
  const std::vector<std::string> hosts{"n1", "n1", "n2", "n2"};
  const auto types = [&](const CudaFacts& second) {
    return std::vector{doctor::type_of(doctor::gpu_facts_of_rank(fast, 0)),
                       doctor::type_of(doctor::gpu_facts_of_rank(fast, 1)),
                       doctor::type_of(doctor::gpu_facts_of_rank(second, 0)),
                       doctor::type_of(doctor::gpu_facts_of_rank(second, 1))};
  };

  Findings alike, different;
  doctor::compare_gpus(alike, types(fast), hosts);
  doctor::compare_gpus(different, types(mixed), hosts);

  EXPECT_TRUE(alike.all().empty());
  ASSERT_EQ(different.all().size(), 1U);
  EXPECT_EQ(different.all()[0].severity, doctor::Severity::note);
  EXPECT_THAT(different.all()[0].text,
              HasSubstr("A100 (9.0, 80 GiB) on n2; H100 (9.0, 80 GiB) on n1 n2"));
  EXPECT_THAT(different.all()[0].fix, HasSubstr("--gpus-per-node=TYPE:N"));
}

TEST(DoctorGpus, AnOldDriverIsToldWithWhatWouldDo) {
  const auto judged = [](const std::string& driver, bool needed) {
    CudaFacts facts;
    facts.runtime = "13.0";
    facts.driver = driver;
    facts.module = "570.86.10";
    Findings findings;
    doctor::judge_cuda(findings, facts, needed);
    return findings.all().at(0);
  };
  EXPECT_EQ(judged("13.1", true).severity, doctor::Severity::fine);
  EXPECT_EQ(judged("", false).severity, doctor::Severity::fine);
  const doctor::Finding old = judged("12.8", true);
  EXPECT_EQ(old.severity, doctor::Severity::problem);
  EXPECT_THAT(old.text,
              HasSubstr("compiled for 13.0, libcuda supports 12.8, kernel module 570.86"));
  EXPECT_THAT(old.fix, HasSubstr("cuda-compat-13-0"));
  EXPECT_EQ(judged("12.8", false).severity, doctor::Severity::note);
}

TEST(DoctorGpus, RanksOnSlicesOfOneGpuAreNamed) {
  const auto judged = [](const std::vector<doctor::RankGpu>& gpus, bool may_share) {
    Findings findings;
    doctor::judge_slices(findings, gpus, may_share);
    return findings;
  };
  const std::vector<doctor::RankGpu> slices{
      {"n1", "01", "a"}, {"n1", "02", "b"}, {"n1", "01", "c"}};
  ASSERT_EQ(judged(slices, false).all().size(), 1U);
  EXPECT_EQ(judged(slices, false).all()[0].severity, doctor::Severity::problem);
  EXPECT_THAT(judged(slices, false).all()[0].text,
              HasSubstr("ranks 0 and 2 have slices of the GPU 01 of n1"));
  EXPECT_EQ(judged(slices, true).all()[0].severity, doctor::Severity::note);
  EXPECT_TRUE(judged({{"n1", "01", "a"}, {"n2", "01", "c"}, {"n1", "", ""}, {"n1", "", ""}}, false)
                  .all()
                  .empty());
}

TEST(DoctorGpus, APlanBeyondTheGpuIsAProblem) {
  Findings findings;
  doctor::judge_gpu_memory(findings, 81ULL << 30U, "activations 80.00 GiB", 80ULL << 30U);
  doctor::judge_gpu_memory(findings, 79ULL << 30U, "activations 78.00 GiB", 80ULL << 30U);
  EXPECT_EQ(findings.all()[0].severity, doctor::Severity::problem);
  EXPECT_THAT(findings.all()[0].text, HasSubstr("activations 80.00 GiB"));
  EXPECT_EQ(findings.all()[1].severity, doctor::Severity::fine);
}

TEST(DoctorGpus, ARankWithoutAGpuIsNamed) {
  Findings findings;
  doctor::compare_gpus(findings, std::vector<std::string>{"H100", ""},
                       std::vector<std::string>{"n1", "n2"});

  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_THAT(findings.all()[0].text, HasSubstr("no GPU on n2"));
}

Findings judged_speeds(const std::vector<double>& seconds) {
  Findings findings;
  doctor::judge_speeds(findings, seconds, std::vector<std::string>(seconds.size(), "n1"));
  return findings;
}

TEST(DoctorJudges, OtherProgramsOnTheCoresAreANote) {
  Findings findings;
  doctor::judge_load(findings, "n1", {.cores = 2, .busy = 1.9, .own = 0.1});
  doctor::judge_load(findings, "n2", {.cores = 2, .busy = 0.1, .own = 0.05});
  doctor::judge_load(findings, "n3", {.cores = 64, .busy = 1, .stolen = 6});

  ASSERT_EQ(findings.all().size(), 3U);
  EXPECT_EQ(findings.all()[0].severity, doctor::Severity::note);
  EXPECT_EQ(findings.all()[0].text, "other processes used 1.8 of 2 cores on n1");
  EXPECT_EQ(findings.all()[1].severity, doctor::Severity::fine);
  EXPECT_EQ(findings.all()[2].severity, doctor::Severity::note);
  EXPECT_THAT(findings.all()[2].text, HasSubstr("other virtual machines 6.0"));
}

TEST(DoctorJudges, TheSlowerOfTwoRanksIsComparedWithTheOther) {
  const Findings slow = judged_speeds({1, 3});
  ASSERT_EQ(slow.all().size(), 1U);
  EXPECT_EQ(slow.all()[0].severity, doctor::Severity::note);
  EXPECT_THAT(slow.all()[0].text, HasSubstr("rank, 1 on n1, takes 3.00 times"));
  EXPECT_THAT(slow.all()[0].fix, HasSubstr("slowest rank"));

  EXPECT_EQ(judged_speeds({1, 1.1}).all()[0].severity, doctor::Severity::fine);
  EXPECT_THAT(judged_speeds({2, 1, 1, 4}).all()[0].text, HasSubstr("3 on n1, takes 4.00 times"));
}

TEST(DoctorJudges, RanksThatShareCoresAreFoundByTheirMasks) {
  const auto crowd_of = [](const std::vector<RankCores>& ranks) { return most_crowded(ranks); };
  const std::vector<int> two{0, 1}, first{0}, second{1};

  EXPECT_FALSE(crowd_of({{"a", two}, {"a", two}}).crowded());
  EXPECT_FALSE(crowd_of({{"a", first}, {"b", first}}).crowded()) << "cores of two hosts";
  EXPECT_TRUE(crowd_of({{"a", two}, {"a", two}, {"a", two}}).crowded());
  EXPECT_TRUE(crowd_of({{"a", two, 1.0}, {"a", two, 1.0}}).crowded()) << "a quota of one core";
  const CoreCrowd pinned = crowd_of({{"a", second}, {"b", two}, {"a", first}, {"a", first}});
  EXPECT_EQ(pinned.host, "a");
  EXPECT_THAT(pinned.ranks, testing::ElementsAre(2, 3));

  Findings findings;
  doctor::judge_cores(findings, pinned, 4);
  ASSERT_EQ(findings.all().size(), 1U);
  EXPECT_EQ(findings.all()[0].severity, doctor::Severity::note);
  EXPECT_THAT(findings.all()[0].text, HasSubstr("ranks 2, 3 on a share 1 core"));
  EXPECT_THAT(findings.all()[0].fix, HasSubstr("at most one rank per core"));
}

TEST(DoctorJudges, LoadOfAHostIsThatOfAllCoresOfItsRanks) {
  // Of two cores, each busy, and a rank that used 0.7 of the core that it may use.
  const auto bound = [](int core) {
    return RankLoad{"a", {core}, {.cores = 1, .busy = 1, .stolen = 0.01, .own = 0.7}};
  };
  const RankLoad free{"b", {0, 1}, {.cores = 2, .busy = 1.9, .own = 0.8}};

  const HostLoads apart = load_of_hosts(std::vector{bound(0), free, bound(1)});
  ASSERT_EQ(apart.size(), 2U);
  EXPECT_EQ(apart[0].first, "a");
  EXPECT_EQ(apart[0].second.cores, 2);
  EXPECT_NEAR(apart[0].second.others(), 0.6, 1e-9);
  EXPECT_NEAR(apart[0].second.stolen, 0.02, 1e-9);
  EXPECT_NEAR(apart[1].second.others(), 1.1, 1e-9);

  const HostLoads together = load_of_hosts(std::vector{free, free});
  ASSERT_EQ(together.size(), 1U);
  EXPECT_EQ(together[0].second.cores, 2);
  EXPECT_NEAR(together[0].second.others(), 0.3, 1e-9);
}

TEST(DoctorJudges, APlanBeyondTheHostsMemoryIsAProblemAndBeyondFreeMemoryANote) {
  constexpr std::uint64_t gib = 1ULL << 30U;
  const auto severity = [](std::uint64_t planned, const HostMemory& memory) {
    Findings findings;
    doctor::judge_planned_memory(findings, planned, 2, memory);
    EXPECT_EQ(findings.all().size(), 1U);
    return findings.all().at(0).severity;
  };
  const HostMemory host{.total_bytes = 24 * gib, .available_bytes = 10 * gib};

  EXPECT_EQ(severity(43 * gib, host), doctor::Severity::problem);
  EXPECT_EQ(severity(12 * gib, host), doctor::Severity::note);
  EXPECT_EQ(severity(9 * gib, host), doctor::Severity::fine);
  EXPECT_EQ(
      severity(9 * gib,
               {.total_bytes = 24 * gib, .available_bytes = 20 * gib, .limit_bytes = 8 * gib}),
      doctor::Severity::problem);
}

TEST(DoctorJudges, CollectivesThatTakeTooLongAreANote) {
  const auto severity = [](double seconds, double bandwidth) {
    Findings findings;
    doctor::judge_collectives(findings, "all-reduce", seconds, bandwidth);
    return findings.all().at(0).severity;
  };

  EXPECT_EQ(severity(96e-3, 500), doctor::Severity::note);
  EXPECT_EQ(severity(1e-4, 10), doctor::Severity::note) << "100 Mbit/s";
  EXPECT_EQ(severity(1e-4, 500), doctor::Severity::fine);
}

class DoctorTest : public RunTest {
 protected:
  static CommandResult doctor(const std::string& set, int ranks) {
    return trireme("doctor " + data_directory() + "/gpt.yaml --set run.directory=" +
                       data_directory() + "/doctor" + (set.empty() ? "" : " --set " + set),
                   ranks);
  }
};

TEST_F(DoctorTest, ReportsAMachineWithoutAConfig) {
  const CommandResult result = trireme("doctor", 0);

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("cpu "), HasSubstr("memory "), HasSubstr("MPI "),
                                   HasSubstr("HDF5 "), HasSubstr("0 problems")));
}

TEST_F(DoctorTest, ReportsAllRanksInOneTableWithTheirGroups) {
  const CommandResult result = doctor("parallel.tensor=2", 4);

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("data 2 x tensor 2"), HasSubstr("[all ranks]"),
                                   HasSubstr("tensor groups of 2: all-reduce"),
                                   HasSubstr("data groups of 2: all-reduce"),
                                   HasSubstr("is visible on every host"), HasSubstr("0 problems")));
}

TEST_F(DoctorTest, ComparesCollectivesWithTheHardwareFile) {
  plan::Hardware values = plan::load_hardware(TRIREME_HARDWARE_FILE);
  values.name = "this cluster";
  const auto doctor_with = [&](const plan::Link& link) {
    values.links.inside = values.links.between = link;
    write_file(directory() + "/hardware.yaml", plan::to_yaml(values, ""));
    return trireme("doctor --hardware " + directory() + "/hardware.yaml", 2).output;
  };

  EXPECT_THAT(doctor_with({.latency = 1e-9, .bandwidth = 1e14}),
              AllOf(HasSubstr("note     collectives"), HasSubstr("; this cluster should reach"),
                    HasSubstr("-> check the choice of interface")));
  EXPECT_THAT(doctor_with({.latency = 1, .bandwidth = 1e6}), HasSubstr("ok       collectives"));
}

TEST_F(DoctorTest, AConfigThatCannotRunHereIsAProblemWithItsReason) {
  const CommandResult layout = doctor("parallel.tensor=3", 2);
  EXPECT_EQ(layout.exit_code, 2) << layout.output;
  EXPECT_THAT(layout.output,
              AllOf(HasSubstr("PROBLEM  config"), HasSubstr("start a multiple of 3 ranks")));

  const CommandResult data = doctor("data.path=/nowhere", 1);
  EXPECT_EQ(data.exit_code, 2) << data.output;
  EXPECT_THAT(data.output, AllOf(HasSubstr("PROBLEM  data"), HasSubstr("/nowhere")));
}

TEST_F(DoctorTest, RanksOnOneCoreAreFoundWithoutAConfig) {
  const CommandResult result =
      run_command(fmt::format("taskset -c {} {} --bind-to none -np 2 {} doctor",
                              allowed_cores().front(), TRIREME_MPIEXEC, TRIREME_BINARY));

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("note     cores          all 2 ranks on "),
                                   HasSubstr("share 1 core and take turns"),
                                   HasSubstr("stragglers     not checked: ranks share cores")));
}

TEST_F(DoctorTest, AConfigThatPlansMoreThanTheHostHasIsAProblem) {
  const CommandResult result = doctor(
      "model.hidden=32768 --set model.heads=256 --set model.layers=40 --set device.type=cpu", 2);

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("PROBLEM  planned memory the config plans "),
                                   HasSubstr("for 2 ranks of this host"),
                                   HasSubstr("-> lower train.micro_batch")));
}

TEST_F(DoctorTest, RanksOfDifferentConfigsAreAProblem) {
  const std::string start = std::string(TRIREME_BINARY) + " doctor " + data_directory() +
                            "/gpt.yaml --set optimizer.weight_decay=";
  const CommandResult result = run_each(directory(), {start + "0.1", start + "0.2"});

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("PROBLEM  config"), HasSubstr("rank 1 has")));
}

TEST_F(DoctorTest, WorksWithoutAnMpiLauncher) {
  const CommandResult result =
      run_command(std::string(TRIREME_TCP_RUN) + " 3 " TRIREME_BINARY " doctor");

  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("RANK and WORLD_SIZE; 3 ranks, 3 on this host  [all ranks]"),
                    HasSubstr("data groups of 3: all-reduce")));
}

}  // namespace
}  // namespace trireme::test
