// SPDX-License-Identifier: Apache-2.0
// The rows of pairs that exclude each other, and README's table of modes, which is made of them.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "models/config.h"
#include "runtime/config/rules/exclusions.h"
#include "runtime/config/rules/rules.h"
#include "tests/config/resolve_support.h"

namespace trireme {
namespace {

using config::Exclusion;
using config::key_of;
using testing::HasSubstr;

std::string values_of(std::string_view setting) {
  return std::string(setting.substr(std::min(key_of(setting).size() + 2, setting.size())));
}

// "key=value" for which the setting holds.
std::string example_of(std::string_view setting) {
  const std::string_view key = key_of(setting);
  const std::string values = values_of(setting);
  if (values.starts_with("> ")) return fmt::format("{}=4", key);
  if (!values.empty()) return fmt::format("{}={}", key, values.substr(0, values.find(',')));
  const std::pair<std::string_view, std::string_view> given[] = {
      {"data.sources", "[{path: a}, {path: b}]"},
      {"data.validation_fraction", "0.5"},
      {"device.fused_epilogues", "on"},
      {"lora.dropout", "0.5"},
      {"parallel.reduce_dtype", "compute"},
      {"parallel.sequence", "true"},
      {"parallel.spatial", "[1, 1, 2]"},
      {"train.batch_ramp", "[0:8, 4:16]"},
      {"train.context_ramp", "[0:8, 4:16]"},
      {"train.ema_decay", "0.5"},
      {"train.eval_overlap", "0.5"},
      {"train.freeze", "['*']"},
      {"train.recompute", "full"}};
  const auto* const found =
      std::ranges::find(given, key, &std::pair<std::string_view, std::string_view>::first);
  return fmt::format("{}={}", key, found == std::end(given) ? "2" : found->second);
}

void check(const std::vector<std::string>& overrides) {
  Provenance where;
  const Config config = parse_config(gpt, "a.yaml", overrides, &where);
  const Environment place{};
  check_exclusions(config::Subject{key_table(), config, place, where, Purpose::train});
}

TEST(Exclusions, EachRowRefusesItsPairByNameAndAcceptsTheOtherAlone) {
  for (const Exclusion& row : config::exclusions()) {
    SCOPED_TRACE(fmt::format("{} with {}", row.key, row.with));
    const std::string key = example_of(row.key), with = example_of(row.with);
    const std::string said = config_error([&] { check({key, with}); });
    EXPECT_THAT(said, HasSubstr(fmt::format("--set {}: ", key)));
    EXPECT_THAT(said, HasSubstr(fmt::format(" with {}: ", key_of(row.with))));
    EXPECT_THAT(said, HasSubstr(fmt::format("; use {}", row.use)));
    EXPECT_NO_THROW(check({with}));
  }
}

// A row of README's table of modes.
struct Mode {
  std::string name;
  std::vector<std::string_view> keys;
  int ranks = 1;
  std::vector<std::vector<std::string>> tries;  // their last settings name them
  std::string also;                             // what excludes it but is not a pair of settings
};

std::vector<Mode> modes() {
  const auto pipelined = [](const std::string& how) {
    return std::vector<std::string>{"parallel.pipeline=2",
                                    how == "interleaved" ? "parallel.chunks=2" : "run.seed=1",
                                    "parallel.schedule=" + how};
  };
  return {
      {"data parallel, odd counts too",
       {"parallel.data"},
       3,
       {{"parallel.data=3"}},
       "uneven micro-batches: ZeRO 2 and 3, `train.batch_ramp`"},
      {"ZeRO 1, 2, 3: optimizer state, gradients, parameters sharded",
       {"parallel.zero", "parallel.zero_group"},
       2,
       {{"parallel.zero=1"}, {"parallel.zero=2"}, {"parallel.zero=3"}},
       ""},
      {"tensor parallel: heads, MLP, vocabulary; with it sequence parallel",
       {"parallel.tensor", "parallel.sequence"},
       2,
       {{"parallel.tensor=2"}, {"parallel.tensor=2", "parallel.sequence=true"}},
       ""},
      {"context parallel: a sequence over ranks, in blocks of two chunks",
       {"parallel.context", "parallel.context_blocks"},
       2,
       {{"parallel.context=2"}},
       "with `layout` and ZeRO 0, 1: several micro-batches"},
      {"expert parallel: experts over data and tensor ranks",
       {"parallel.expert"},
       2,
       {{"model.experts=4", "parallel.expert=2"}},
       "uneven micro-batches, `device.graphs`"},
      {"pipeline: `gpipe`, `1f1b`, `interleaved`, `zero-bubble`",
       {"parallel.pipeline", "parallel.schedule", "parallel.chunks"},
       2,
       {pipelined("gpipe"), pipelined("1f1b"), pipelined("interleaved"), pipelined("zero-bubble")},
       ""},
      {"activation checkpointing: `selective`, `full`, in tiles of rows",
       {"train.recompute", "train.row_tile"},
       1,
       {{"train.recompute=selective"}, {"train.recompute=full"}, {"train.row_tile=128"}},
       ""},
      {"8-bit matmuls, scales per operand, 128 or 32 values",
       {"precision: fp8", "fp8_recipe"},
       1,
       {{"precision=fp8"}},
       ""},
      {"bitwise identical across layouts",
       {"reproducibility: layout", "parallel.tensor_blocks: > 1"},
       1,
       {{"reproducibility=layout"}},
       "layouts that do not align"}};
}

// "yes", "refused", or "not" and what is refused.
std::string accepted(const Mode& mode, std::string_view family) {
  std::vector<std::string> refused;
  for (std::vector<std::string> settings : mode.tries) {
    settings.insert(settings.begin(), {fmt::format("model.family={}", family),
                                       "train.global_batch=8", "train.micro_batch=1"});
    try {
      (void)resolved(gpt, settings, ranks(mode.ranks));
    } catch (const Error&) {
      const std::string& last = settings.back();
      const std::size_t equals = last.find('=');
      const bool number = last.find_first_not_of("0123456789", equals + 1) == last.npos;
      refused.push_back(
          fmt::format("`{}`", number ? last.substr(0, equals) : last.substr(equals + 1)));
    }
  }
  if (refused.empty()) return "yes";
  return refused.size() == mode.tries.size() ? "refused"
                                             : fmt::format("not {}", fmt::join(refused, ", "));
}

// Whether `setting` is about one of the mode's keys, with a value that the mode names if it does.
bool is_of(const Mode& mode, std::string_view setting) {
  return std::ranges::any_of(mode.keys, [&](std::string_view key) {
    const std::string named = values_of(key);
    return key_of(key) == key_of(setting) &&
           (named.empty() || values_of(setting).find(named) != std::string::npos);
  });
}

std::string not_with(const Mode& mode) {
  std::vector<std::pair<std::string, std::vector<std::string>>> others;  // by the mode's own values
  for (const Exclusion& row : config::exclusions()) {
    for (const auto& [own, other] : {std::pair{row.key, row.with}, std::pair{row.with, row.key}}) {
      if (!is_of(mode, own) || is_of(mode, other)) continue;
      std::string values = values_of(own).starts_with(">") ? "" : values_of(own);
      if (std::ranges::find(mode.keys, own) != mode.keys.end()) values = "";
      if (own == key_of(own) && own != mode.keys.front()) values = fmt::format("`{}`", own);
      auto found = std::ranges::find(others, values, &decltype(others)::value_type::first);
      if (found == others.end()) found = others.insert(found, {values, {}});
      const std::string text = fmt::format("`{}`", other.substr(0, other.find(": >")));
      if (std::ranges::find(found->second, text) == found->second.end())
        found->second.push_back(text);
    }
  }
  if (!mode.also.empty()) others.push_back({"", {mode.also}});
  std::vector<std::string> parts;
  for (const auto& [values, texts] : others)
    parts.push_back((values.empty() ? "" : values + ": ") +
                    fmt::format("{}", fmt::join(texts, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string table_of_modes() {
  std::string table =
      "| mode | keys | GPT | Llama | ResNet | not with |\n|---|---|---|---|---|---|\n";
  for (const Mode& mode : modes())
    table += fmt::format("| {} | `{}` | {} | {} | {} | {} |\n", mode.name,
                         fmt::join(mode.keys, "`, `"), accepted(mode, "gpt2"),
                         accepted(mode, "llama"), accepted(mode, "resnet"), not_with(mode));
  return table;
}

// Set TRIREME_UPDATE_KEYS to write the table instead of comparing it.
TEST(Readme, TableOfModesIsMadeOfTheRows) {
  const std::string readme = read_file("README.md");
  const auto begin = readme.find("| mode |");
  const auto end = readme.find("\n\n", begin) + 1;
  ASSERT_NE(begin, std::string::npos);
  if (std::getenv("TRIREME_UPDATE_KEYS") != nullptr) {
    std::ofstream("README.md", std::ios::binary)
        << readme.substr(0, begin) << table_of_modes() << readme.substr(end);
    GTEST_SKIP() << "README.md was rewritten";
  }
  EXPECT_EQ(readme.substr(begin, end - begin), table_of_modes())
      << "regenerate with: TRIREME_UPDATE_KEYS=1 <build>/tests/config_test "
         "--gtest_filter='Readme.*'";
}

}  // namespace
}  // namespace trireme
