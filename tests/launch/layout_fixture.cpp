// SPDX-License-Identifier: Apache-2.0
#include "tests/launch/layout_fixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace trireme::test {
namespace {

std::string line_with(const std::string& text, const std::string& part) {
  const auto at = text.find(part);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

}  // namespace

Settings LayoutTest::settings_of(const std::string& text) {
  Settings settings;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool whole = word.find('.') < word.find('=');
    const char* const section = word.starts_with("recompute=") ? "train." : "parallel.";
    settings.push_back(whole ? word : section + word);
  }
  return settings;
}

std::string LayoutTest::name_of(const Layout& layout) {
  std::string name = fmt::format("{}_{}{}", layout.ranks, layout.text, layout.note);
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == '='; }, '_');
  return name;
}

CommandResult LayoutTest::train_layout(const Run& run, const Layout& layout) {
  Settings set = run.set;
  std::ranges::copy(settings_of(layout.text), std::back_inserter(set));
  set.push_back("parallel.timeout_seconds=50");
  const auto train = run.family == Family::gpt ? &LayoutTest::train_gpt : &LayoutTest::train_resnet;
  CommandResult result = (this->*train)(name_of(layout), layout.ranks, set);
  EXPECT_EQ(result.exit_code, 0) << name_of(layout) << "\n" << result.output;
  return result;
}

std::string LayoutTest::transcript(const Run& run, const Layout& layout) {
  const CommandResult result = train_layout(run, layout);
  if (result.exit_code != 0) return "failed";
  std::istringstream lines(read_file(directory() + "/" + name_of(layout) + "/metrics.jsonl"));
  std::string text;
  int steps = 0, validations = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line);
    steps += object.contains("loss") && object.contains("grad_norm") ? 1 : 0;
    validations += object.contains("validation_loss") ? 1 : 0;
    for (const char* const key : {"step", "loss", "grad_norm", "loss_scale", "skipped_steps",
                                  "validation_loss", "accuracy"}) {
      if (object.contains(key)) text += fmt::format("{} {} ", key, object[key].dump());
    }
    text += "\n";
  }
  EXPECT_EQ(steps, run.steps);
  EXPECT_GE(validations, 1);
  const std::string digests = line_with(result.output, "final loss ");
  EXPECT_NE(digests, "") << result.output;
  return text + digests;
}

void LayoutTest::expect_same_bits(const Run& run, const std::vector<Layout>& layouts) {
  Run fixed = run;
  fixed.set.emplace_back("reproducibility=layout");
  const std::string one = transcript(fixed, {});
  ASSERT_NE(line_with(one, "optimizer state xxh3 "), "") << one;
  for (const Layout& layout : layouts) {
    EXPECT_EQ(transcript(fixed, layout), one) << layout.ranks << " ranks, " << layout.text;
  }
}

void LayoutTest::expect_same_losses(const Run& run, const std::vector<Layout>& layouts,
                                    double relative) {
  Run fast = run;
  fast.set.emplace_back("reproducibility=fast");
  train_layout(fast, {});
  const auto one = steps_of(name_of({}));
  ASSERT_EQ(static_cast<int>(one.size()), run.steps);
  for (const Layout& layout : layouts) {
    train_layout(fast, layout);
    const auto steps = steps_of(name_of(layout));
    ASSERT_EQ(steps.size(), one.size()) << layout.text;
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(steps[i].loss, one[i].loss, relative * std::abs(one[i].loss))
          << layout.ranks << " ranks, " << layout.text << ", step " << steps[i].step;
    }
    EXPECT_NEAR(validation_loss_of(name_of(layout)), validation_loss_of(name_of({})),
                relative * validation_loss_of(name_of({})));
  }
}

}  // namespace trireme::test
