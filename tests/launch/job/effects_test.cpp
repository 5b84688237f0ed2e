// SPDX-License-Identifier: Apache-2.0
// The effect of every config key, as its row declares it, against a run that is resumed with
// another value: what the log says agrees with the bits.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <optional>
#include <variant>

#include "models/config.h"
#include "runtime/config/key_table.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using config::Effect;
using config::Field;
using testing::HasSubstr;

class EffectsTest : public RunTest {
 protected:
  // A run of four of its six steps.
  void SetUp() override {
    const CommandResult result = resumed("base", "--until 4");
    ASSERT_EQ(result.exit_code, 0) << result.output;
  }

  [[nodiscard]] CommandResult resumed(const std::string& name, const std::string& options) {
    return trireme(
        fmt::format("train {}/gpt.yaml --set run.directory={}/{} --set train.steps=6 "
                    "--set checkpoint.every_steps=100 {}",
                    data_directory(), directory(), name, options));
  }
  // The steps and the weights of the base's last steps with another value.
  struct Outcome {
    CommandResult result;
    std::string bits;
  };
  [[nodiscard]] Outcome with(const std::string& setting) {
    const std::string run = directory() + "/run";
    fs::remove_all(run);
    fs::copy(directory() + "/base", run, fs::copy_options::recursive);
    Outcome outcome{resumed("run", setting.empty() ? "" : "--set '" + setting + "'"), ""};
    if (outcome.result.exit_code == 0) {
      for (const LoggedStep& step : steps_of("run"))
        outcome.bits += fmt::format("{} {:a} {:a}\n", step.step, step.loss, step.grad_norm);
      outcome.bits += fmt::format("weights {:016x}", std::hash<std::string>{}(weights_of("run")));
    }
    return outcome;
  }
};

// A value of the row's limits that is neither its default nor the run's; nothing for lists, texts
// and what else has none that is sure to be valid.
std::optional<std::string> another_value(const Field& row, const std::string& now) {
  if (const auto* const words = std::get_if<config::Choices>(&row.limits)) {
    for (const std::string_view word : words->words)
      if (word != now) return std::string(word);
    return {};
  }
  Config config = default_config();
  if (std::holds_alternative<bool*>(row.member(config))) return now == "true" ? "false" : "true";
  if (const auto* const range = std::get_if<config::IntegerRange>(&row.limits))
    if (range->items.max == 0)
      for (const std::int64_t value : {std::int64_t{2}, std::int64_t{3}, range->low, range->high})
        if (value >= range->low && value <= range->high && fmt::format("{}", value) != now)
          return fmt::format("{}", value);
  if (const auto* const range = std::get_if<config::NumberRange>(&row.limits))
    if (range->items.max == 0)
      for (const double value : {0.25, 1.5, 30.0})
        if (value > range->low && value < range->high && fmt::format("{}", value) != now)
          return fmt::format("{}", value);
  return {};
}

TEST_F(EffectsTest, AKeyThatChangesNoResultKeepsTheBitsAndNoneIsKeptOrRefusedUnsaid) {
  const Outcome usual = with("");
  ASSERT_EQ(usual.result.exit_code, 0) << usual.result.output;
  const Config config = load_config(directory() + "/base/config.yaml", {});
  std::vector<std::string> tried;
  for (const auto& [key, now] : values_by_key(config)) {
    const Field& row = *key_table().find(key);
    const Effect effect = row.effect();
    const auto value = another_value(row, now);
    // A directory of its own and a device are no values of this run; steps end it elsewhere.
    if (!value || key.starts_with("model.") || key == "device.type") continue;

    const Outcome other = with(fmt::format("{}={}", key, *value));

    const std::string& said = other.result.output;
    SCOPED_TRACE(fmt::format("{}: {} (was {})", key, *value, now));
    if (effect == Effect::samples || effect == Effect::state) {
      EXPECT_EQ(other.result.exit_code, 2) << said;
      continue;
    }
    EXPECT_EQ(said.find("set it back"), std::string::npos) << said;
    if (other.result.exit_code != 0) continue;  // refused by a rule, or stopped by itself
    tried.push_back(key);
    const std::string change = fmt::format("{}: {}", key, *value);
    const auto free = said.find("do not change what is computed:");
    const bool is_free =
        free != std::string::npos &&
        said.substr(free, said.find('\n', free) - free).find(change) != std::string::npos;
    EXPECT_EQ(is_free, effect > Effect::layout) << said;
    if (is_free) {
      EXPECT_EQ(other.bits, usual.bits) << said;
    }
  }
  EXPECT_GT(tried.size(), 40U) << fmt::format("{}", fmt::join(tried, " "));
}

}  // namespace
}  // namespace trireme::test
