// SPDX-License-Identifier: Apache-2.0
// `trireme doctor` alone and under mpirun, with configs that can and cannot run.
#include <gmock/gmock.h>

#include "launch/doctor/finding.h"
#include "tests/launch/run_fixture.h"

namespace trireme::test {
namespace {

using doctor::Findings;
using testing::AllOf;
using testing::HasSubstr;

TEST(DoctorTable, PutsEqualFindingsOfRanksTogetherAndCountsProblems) {
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
                                   HasSubstr("shows on every host"), HasSubstr("0 problems")));
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

TEST_F(DoctorTest, RanksOfDifferentConfigsAreAProblem) {
  const std::string start = std::string(TRIREME_BINARY) + " doctor " + data_directory() +
                            "/gpt.yaml --set optimizer.weight_decay=";
  const CommandResult result = run_command(std::string(TRIREME_MPIEXEC) + " -np 1 " + start +
                                           "0.1 : -np 1 " + start + "0.2");

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
