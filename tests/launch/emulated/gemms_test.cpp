// SPDX-License-Identifier: Apache-2.0
// device.autotune and device.fused_epilogues in whole runs on two emulated GPUs, with four
// algorithms per product of different bits and times.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <regex>

#include "tests/launch/fixture/emulated_fixture.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using Settings = std::vector<std::string>;

class ProductsTest : public RunTest {
 protected:
  [[nodiscard]] CommandResult run(const std::string& name, Settings set) {
    set.insert(set.end(), {"device.type=cuda", "train.steps=2", "train.eval_every=0"});
    return train_gpt(name, 2, set);
  }
  // The weights that a run ends with.
  [[nodiscard]] std::string trained(const std::string& name, const Settings& set) {
    const CommandResult ran = run(name, set);
    EXPECT_EQ(ran.exit_code, 0) << ran.output;
    return weights_of(name);
  }
  [[nodiscard]] std::string file() const { return directory() + "/tuned.txt"; }
};

// Measurements precede the first step, so the run that creates a file already uses it.
TEST_F(ProductsTest, ARunThatMakesAFileHasTheBitsOfThoseThatReadIt) {
  const Settings tuned{"device.autotune=" + file()};

  const std::string without = trained("without", {});
  const std::string first = trained("first", tuned);
  const std::string written = read_file(file());
  const std::string second = trained("second", tuned);

  EXPECT_TRUE(first != without) << "the fastest algorithm has other bits";
  EXPECT_THAT(written, HasSubstr("gpu: Emulated GPU"));
  EXPECT_TRUE(second == first);
  EXPECT_EQ(read_file(file()), written) << "nothing was left to measure";
}

// Muon's update has matmuls that are not rehearsed: they use the library's suggestions, except in
// modes in which a later run must have the same bits.
TEST_F(ProductsTest, MatmulsThatComeLaterAreMeasuredForTheNextRunInFastModeOnly) {
  Settings set{"device.autotune=" + file(), "optimizer.name=muon"};

  const std::string first = trained("first", set);
  const std::string written = read_file(file());
  const std::string second = trained("second", set);
  set.emplace_back("reproducibility=fast");
  const CommandResult fast = run("fast", set);

  EXPECT_TRUE(second == first);
  EXPECT_EQ(fast.exit_code, 0) << fast.output;
  EXPECT_THAT(fast.output, HasSubstr("for the next run"));
  EXPECT_GT(read_file(file()).size(), written.size());
}

// The two ranks of a tensor-parallel layer compute different blocks; missing ones are measured.
TEST_F(ProductsTest, AFileServesEveryLayoutThatHasItsBlocks) {
  Settings one{"device.autotune=" + file(), "reproducibility=layout", "parallel.tensor_blocks=2"};
  Settings split = one;
  split.emplace_back("parallel.tensor=2");

  const CommandResult made = run("made", one);
  ASSERT_EQ(made.exit_code, 0) << made.output;

  EXPECT_TRUE(trained("split", split) == trained("one", one));
}

// Memory for the model, but less free than the weights of its head.
TEST_F(ProductsTest, AMatmulWithoutMemoryEndsAReproducibleRun) {
  Settings set{"model.vocabulary=20000", "model.layers=1", "device.type=cuda", "train.steps=2",
               "train.eval_every=0"};
  static_cast<void>(train_gpt("alone", 1, set));
  const std::string log = read_file(directory() + "/alone/console.log");
  std::smatch used;
  ASSERT_TRUE(std::regex_search(log, used, std::regex(R"(predicted / measured: [\d.]+ / (\d+))")))
      << log;
  const std::string memory = std::to_string(std::stoi(used[1]) + 1);  // MiB
  set.push_back("device.autotune=" + file());

  ::setenv("TRIREME_EMULATED_MEMORY", memory.c_str(), 1);
  const CommandResult refused = train_gpt("refused", 1, set);
  ::unsetenv("TRIREME_EMULATED_MEMORY");

  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("tuned.txt: the matmul "));
  EXPECT_THAT(refused.output, HasSubstr("could not be measured: out of memory"));
}

TEST_F(ProductsTest, ABrokenFileIsRefusedByLine) {
  write_file(file(), "trireme product algorithms 1\ngpu: Another GPU\n");

  const CommandResult refused = run("refused", {"device.autotune=" + file()});

  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("tuned.txt:2: made on Another GPU"));
}

// Which bits a run has shows what was fused: a fused GELU has others.
TEST_F(ProductsTest, MeasuredEpiloguesThatAreSlowerRunApartWithTheBitsOfNoFusion) {
  Settings set{"device.autotune=" + file(), "device.fused_epilogues=on"};
  const ScopedVariable slow("TRIREME_EMULATED_SLOW_EPILOGUES", "gelu_bias,dgelu,bias_gradient");

  const CommandResult made = run("made", set);
  set.back() = "device.fused_epilogues=off";
  const std::string off = trained("off", set);

  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, testing::ContainsRegex(", 0 of [1-9][0-9]* measured epilogues fused"));
  EXPECT_TRUE(weights_of("made") == off);
}

// The file decides, whatever a later measurement would say, also for a run that goes on.
TEST_F(ProductsTest, MeasuredEpiloguesThatAreFasterStayFusedInRunsThatReadTheFile) {
  Settings set{"device.autotune=" + file(), "device.fused_epilogues=on",
               "lr_schedule.name=constant"};
  std::string made;
  {
    const ScopedVariable slow("TRIREME_EMULATED_SLOW_EPILOGUES", "none,bias");
    made = trained("made", set);
  }
  const std::string written = read_file(file());

  const ScopedVariable slow("TRIREME_EMULATED_SLOW_EPILOGUES", "gelu_bias,dgelu,bias_gradient");
  EXPECT_TRUE(trained("read", set) == made);
  Settings first = set;
  first.emplace_back("checkpoint.every_steps=1 --until 1");
  const CommandResult half = run("resumed", first);
  EXPECT_EQ(steps_of("resumed").size(), 1U) << half.output;
  EXPECT_TRUE(trained("resumed", set) == made);
  EXPECT_EQ(read_file(file()), written);
  EXPECT_THAT(written,
              AllOf(HasSubstr(" gelu_bias "), HasSubstr(" fused "), Not(HasSubstr(" apart "))));
  set[1] = "device.fused_epilogues=off";
  EXPECT_TRUE(trained("off", set) != made);
}

// In a pipeline's step nothing may be loaded or allocated while messages are in flight, so what was
// chosen is rehearsed, too: the first rehearsal fused all.
TEST_F(ProductsTest, APipelineRehearsesItsChoices) {
  const ScopedVariable contracts("TRIREME_EMULATED_CONTRACTS", "all"),
      slow("TRIREME_EMULATED_SLOW_EPILOGUES", "gelu_bias,dgelu,bias_gradient");

  const CommandResult ran = run("pipeline", {"device.autotune=" + file(),
                                             "device.fused_epilogues=on", "parallel.pipeline=2"});

  EXPECT_EQ(ran.exit_code, 0) << ran.output;
}

TEST_F(ProductsTest, FusedEpiloguesTrainAsSeparateKernelsDo) {
  const std::string apart = trained("apart", {});
  const std::string fused = trained("fused", {"device.fused_epilogues=on", "comm.max_ctas=2"});

  EXPECT_TRUE(fused != apart) << "nothing was fused";
  const auto a = steps_of("apart"), b = steps_of("fused");
  ASSERT_EQ(a.size(), 2U);
  ASSERT_EQ(b.size(), a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(b[i].loss, a[i].loss, 1e-5 * std::abs(a[i].loss)) << "step " << i + 1;
}

}  // namespace
}  // namespace trireme::test
