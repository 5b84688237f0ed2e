// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/layout_search.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "models/config.h"
#include "tests/launch/fixture/hardware_text.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

constexpr std::size_t all = 1 << 20;
const std::string gpt_text = R"(
precision: fp32
model: {family: gpt2, layers: 2, hidden: 32, heads: 4, context: 24, vocabulary: 256}
data: {path: none}
train: {global_batch: 16, micro_batch: 2}
)";
const std::string resnet_text = R"(
precision: fp32
model: {family: resnet, block: basic, stem: small, stages: [1, 1], width: 8, image_size: 12, channels: 1, classes: 3}
data: {path: none}
train: {global_batch: 16, micro_batch: 4}
)";

Config config(const std::string& text, const std::vector<std::string>& set = {}) {
  return parse_config(text, "test.yaml", set);
}

plan::Hardware machine(const std::string& memory = "1000000000") {
  return plan::parse_hardware(test::with_value(test::small_machine, "memory_bytes", memory),
                              "machine.yaml");
}

std::vector<LayoutChoice> choices(const std::vector<LayoutPlan>& plans) {
  std::vector<LayoutChoice> found;
  for (const LayoutPlan& plan : plans)
    found.push_back(choice_of(plan.config));
  return found;
}

// As a shell reads them; only lists are quoted.
std::vector<std::string> settings_of(const std::string& flags) {
  std::vector<std::string> settings;
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (word == "--set") continue;
    if (word.starts_with('\'')) {
      for (std::string more; !word.ends_with('\'') && words >> more;)
        word += " " + more;
      word = word.substr(1, word.size() - 2);
    }
    settings.push_back(word);
  }
  return settings;
}

template <typename Member, typename Value>
bool any_with(const std::vector<LayoutChoice>& found, Member member, const Value& value) {
  return std::ranges::find(found, value, member) != found.end();
}

TEST(LayoutSearch, OneRankVariesMicroBatchAndRecomputationOnly) {
  LayoutSearch search(config(gpt_text), 1, machine());
  const auto plans = search.fastest(all);

  EXPECT_EQ(search.tried(), 3U * 5U);  // micro-batches of 1, 2, 4, 8, 16
  EXPECT_EQ(search.refused(), 0U);
  EXPECT_EQ(plans.size(), 15U);
  EXPECT_EQ(plans.front().config.train.recompute, Recompute::none);
}

TEST(LayoutSearch, RanksByTimeAndFindsTheSameEveryTime) {
  LayoutSearch first(config(gpt_text), 8, machine()), second(config(gpt_text), 8, machine());
  const auto plans = first.fastest(all);

  EXPECT_GT(plans.size(), 100U);
  EXPECT_TRUE(
      std::ranges::is_sorted(plans, {}, [](const LayoutPlan& plan) { return plan.step.total; }));
  EXPECT_EQ(choices(second.fastest(10)), choices({plans.begin(), plans.begin() + 10}));
  for (const LayoutPlan& plan : plans)
    EXPECT_EQ(mesh_shape(plan.config.parallel).size(), 8);
  const auto found = choices(plans);
  for (const auto& [schedule, name] : names_of(ScheduleKind{}))
    EXPECT_TRUE(any_with(found, &LayoutChoice::schedule, schedule)) << name;
  for (const std::int64_t zero : {0, 1, 2, 3})
    EXPECT_TRUE(any_with(found, &LayoutChoice::zero, zero)) << zero;
  EXPECT_TRUE(any_with(found, &LayoutChoice::sequence, true));
}

TEST(LayoutSearch, TriesZeroInTheDomainsThatADataGroupSpans) {
  const auto found = [](const std::string& domain) {
    LayoutSearch search(
        config(gpt_text), 8,
        plan::parse_hardware(test::with_value(test::small_machine, "domain", domain),
                             "machine.yaml"));
    return choices(search.fastest(all));
  };
  const auto in_groups = found("4"), in_one = found("8");

  EXPECT_TRUE(any_with(in_groups, &LayoutChoice::zero_group, 4));
  EXPECT_TRUE(any_with(in_groups, &LayoutChoice::zero_group, 2));  // with two tensor ranks
  for (const LayoutChoice& choice : in_groups)
    EXPECT_TRUE(choice.zero_group == 0 ||
                (choice.zero > 0 && choice.zero_group * choice.tensor == 4 &&
                 choice.zero_group < choice.data));
  EXPECT_FALSE(any_with(in_one, &LayoutChoice::zero_group, 4));
}

// GPipe takes as long as 1F1B and keeps more micro-batches.
// 12 experts on 8 ranks, 2 of them in a domain; the choice of micro-batches stays open.
TEST(LayoutSearch, DividesExpertsOverTensorRanksTheDomainOrAllThatDivideThem) {
  plan::Hardware two_nodes = machine();
  two_nodes.links.domain = 2;
  const std::string text = R"(
precision: fp32
model: {family: llama, layers: 2, hidden: 32, heads: 4, context: 24, vocabulary: 256, experts: 12}
data: {path: none}
train: {global_batch: 16, micro_batch: 2}
)";
  LayoutSearch search(config(text), 8, two_nodes);
  const auto found = choices(search.fastest(all));

  for (const std::int64_t expert : {0, 2, 4})
    EXPECT_TRUE(any_with(found, &LayoutChoice::expert, expert)) << expert;
  EXPECT_TRUE(any_with(found, &LayoutChoice::micro_batch, 1));
  for (const LayoutChoice& choice : found) {
    EXPECT_TRUE(choice.expert == 0 || (12 % choice.expert == 0 && choice.expert > choice.tensor &&
                                       choice.expert % choice.tensor == 0 &&
                                       choice.data % (choice.expert / choice.tensor) == 0));
  }
  EXPECT_LT(search.tried(), 3 * LayoutSearch(config(gpt_text), 8, two_nodes).tried());
}

// Nodes of one rank each, with at least 8,192 of 32,768 tokens.
TEST(LayoutSearch, SharesLongSequencesWithinADomainAndBeyond) {
  plan::Hardware nodes = machine("64000000000");
  nodes.links.domain = 1;
  const std::vector<std::string> set{"model.context=32768", "train.global_batch=2",
                                     "train.micro_batch=1", "parallel.context_mode=gather"};
  const Config given = config(gpt_text, set);
  const auto found = choices(LayoutSearch(given, 8, nodes).fastest(all));

  for (const std::int64_t context : {1, 2, 4})
    EXPECT_TRUE(any_with(found, &LayoutChoice::context, context)) << context;
  for (const LayoutChoice& choice : found) {
    EXPECT_LE(choice.context, 4);
    auto both = set;
    for (const std::string& setting : settings_of(as_flags(given, choice)))
      both.push_back(setting);
    EXPECT_EQ(choice_of(resolve_config(config(gpt_text, both), {.ranks = 8})), choice);
  }
  for (const LayoutChoice& choice : choices(LayoutSearch(config(gpt_text), 8, nodes).fastest(all)))
    EXPECT_EQ(choice.context, 1) << "of 24 tokens";
}

TEST(LayoutSearch, OnEqualTimesTheSmallerComesFirst) {
  const auto plans = LayoutSearch(config(gpt_text), 2, machine()).fastest(all);
  int pairs = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    LayoutChoice other = choice_of(plans[i].config);
    if (other.schedule != ScheduleKind::gpipe) continue;
    other.schedule = ScheduleKind::one_f_one_b;
    const auto twin = std::ranges::find(
        plans, other, [](const LayoutPlan& plan) { return choice_of(plan.config); });
    ASSERT_NE(twin, plans.end());
    if (twin->step.total != plans[i].step.total) continue;
    ++pairs;
    EXPECT_LT(twin - plans.begin(), static_cast<std::ptrdiff_t>(i));
  }
  EXPECT_GT(pairs, 0);
}

TEST(LayoutSearch, KeepsKeysThatDecideResults) {
  const Config layout = config(gpt_text, {"reproducibility=layout", "parallel.tensor_blocks=4"});
  for (const LayoutPlan& plan : LayoutSearch(layout, 4, machine()).fastest(all)) {
    EXPECT_EQ(plan.config.train.micro_batch, 2);
    EXPECT_EQ(plan.config.parallel.tensor_blocks, 4);
    EXPECT_EQ(plan.config.train.global_batch, 16);
  }
  // Batch normalization depends on the micro-batch.
  for (const LayoutPlan& plan : LayoutSearch(config(resnet_text), 4, machine()).fastest(all))
    EXPECT_EQ(plan.config.train.micro_batch, 4);
}

TEST(LayoutSearch, DropsLayoutsThatDoNotFit) {
  const auto everything = LayoutSearch(config(gpt_text), 4, machine()).fastest(all);
  std::vector<std::uint64_t> needs;
  for (const LayoutPlan& plan : everything)
    needs.push_back(memory_needed(plan, machine()));
  std::ranges::sort(needs);
  const std::uint64_t middle = needs[needs.size() / 2];
  const plan::Hardware smaller = machine(std::to_string(middle));

  LayoutSearch search(config(gpt_text), 4, smaller);
  const auto fitting = search.fastest(all);

  EXPECT_EQ(fitting.size(),
            static_cast<std::size_t>(std::ranges::upper_bound(needs, middle) - needs.begin()));
  EXPECT_EQ(search.too_large(), everything.size() - fitting.size());
  EXPECT_TRUE(LayoutSearch(config(gpt_text), 4, machine("50000001")).fastest(1).empty());
}

TEST(LayoutSearch, TheNearestDiffersInTheFewestKeys) {
  const Config given = config(gpt_text, {"train.micro_batch=16", "parallel.data=1"});
  const LayoutChoice from = choice_of(given);
  const plan::Hardware smaller = machine("52000000");
  ASSERT_GT(memory_needed({.config = resolve_config(given, {}),
                           .stages = plan_memory_of_stages(resolve_config(given, {}))},
                          smaller),
            52000000U);

  LayoutSearch search(given, 1, smaller);
  const auto nearest = search.nearest(from);

  ASSERT_TRUE(nearest.has_value());
  EXPECT_TRUE(fits(*nearest, smaller));
  EXPECT_EQ(distance(choice_of(nearest->config), from), 1);
  for (const LayoutPlan& plan : search.fastest(all)) {
    if (distance(choice_of(plan.config), from) == 1) {
      EXPECT_GE(plan.step.total, nearest->step.total);
    }
  }
}

TEST(LayoutSearch, FlagsMakeTheLayoutOfAnyConfig) {
  const std::vector<std::string> odd{"parallel.pipeline=2", "parallel.schedule=interleaved",
                                     "parallel.chunks=2", "parallel.zero=3",
                                     "parallel.stage_layers=[1,1,1,1]"};
  const Config given = config(gpt_text, odd);
  for (const LayoutPlan& plan : LayoutSearch(given, 4, machine()).fastest(40)) {
    const LayoutChoice choice = choice_of(plan.config);
    auto settings = odd;
    std::ranges::copy(settings_of(as_flags(given, choice)), std::back_inserter(settings));
    const Config again = resolve_config(config(gpt_text, settings), {.ranks = 4});
    EXPECT_EQ(choice_of(again), choice);
    EXPECT_TRUE(again.parallel.stage_layers.empty());
  }
}

constexpr const char* unet_text = R"(
model: {family: unet, depth: 32, image_size: 32, channels: 1, classes: 2, filters: 8, levels: 2}
data: {files: [a], inputs: [volume], target: parts, axes: DHWC}
train: {global_batch: 2, micro_batch: 1}
)";

TEST(LayoutSearch, SharesSamplesThatCanBeCutWhereTheBatchIsSmall) {
  const Config given = config(unet_text, {});
  const auto found = LayoutSearch(given, 8, machine()).fastest(400);
  EXPECT_TRUE(std::ranges::any_of(found, [](const LayoutPlan& plan) {
    return plan.config.parallel.spatial == std::vector<std::int64_t>{2, 2, 1} &&
           plan.config.parallel.data == 2;
  }));
  for (const LayoutPlan& plan : found) {
    const LayoutChoice choice = choice_of(plan.config);
    const Config again =
        resolve_config(config(unet_text, settings_of(as_flags(given, choice))), {.ranks = 8});
    EXPECT_EQ(choice_of(again), choice);
  }
}

TEST(LayoutSearch, ReportsWhyNoLayoutIsPossible) {
  test::expect_error(
      ExitCode::config,
      [] { (void)LayoutSearch(config(resnet_text, {"train.global_batch=4"}), 7, machine()); },
      "none of", "layouts of 7 ranks", "train.global_batch");
}

}  // namespace
}  // namespace trireme
