// SPDX-License-Identifier: Apache-2.0
// The files in configs/ and the table in configs/README.md. Runs from the repository root.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "models/config.h"
#include "tests/config/support.h"

namespace trireme {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read; run the test from the repository root";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> example_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

TEST(ExampleConfigs, AreTheOnesInTheReadme) {
  std::set<std::string> names;
  for (const auto& file : example_files())
    names.insert(file.stem().string());

  for (const char* const name :
       {"gpt_tiny",   "gpt2_124m",      "gpt2_350m", "gpt2_774m",   "gpt2_1558m",
        "llama_tiny", "llama3_2_1b",    "llama3_8b", "llama3_70b",  "qwen2_5_7b",
        "qwen3_0_6b", "resnet_fashion", "resnet18",  "resnet34",    "resnet50_imagenet",
        "resnet101",  "resnet152",      "bert_tiny", "vit_fashion", "vit_b16_imagenet"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ExampleConfigs, ResolveAtOneTwoAndFourRanksForEveryPurpose) {
  for (const auto& file : example_files()) {
    Provenance where;
    const Config config = load_config(file.string(), {}, &where);
    for (const int ranks : {1, 2, 4}) {
      for (const Purpose purpose : {Purpose::train, Purpose::evaluate, Purpose::generate}) {
        EXPECT_NO_THROW(
            static_cast<void>(resolve_config(config, {.ranks = ranks}, &where, purpose)))
            << file << " on " << ranks << " ranks";
      }
    }
  }
}

TEST(ExampleConfigs, WriteToSeparateDirectories) {
  for (const auto& file : example_files()) {
    EXPECT_EQ(load_config(file.string(), {}).run.directory, "runs/" + file.stem().string());
  }
}

TEST(ExampleConfigs, BeginWithWhatHowAndCost) {
  for (const auto& file : example_files()) {
    const std::string text = read_file(file.string());
    for (const char* const part : {"# Pack: ", "# Run: ", "# Cost: "}) {
      EXPECT_THAT(text, testing::HasSubstr(part)) << file;
    }
  }
}

constexpr std::string_view begin_mark = "<!-- config-table:begin -->\n";
constexpr std::string_view end_mark = "<!-- config-table:end -->";

// Set TRIREME_UPDATE_KEYS to write the table instead of comparing it.
TEST(Readme, ConfigTableIsTheTableOfFields) {
  const std::string readme = read_file("configs/README.md");
  const auto begin = readme.find(begin_mark);
  const auto end = readme.find(end_mark);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos && begin < end)
      << "configs/README.md lacks the lines " << begin_mark << end_mark;
  const auto first = begin + begin_mark.size();

  if (std::getenv("TRIREME_UPDATE_KEYS") != nullptr) {
    std::ofstream("configs/README.md", std::ios::binary)
        << readme.substr(0, first) << field_table_markdown() << readme.substr(end);
    GTEST_SKIP() << "configs/README.md was rewritten";
  }
  EXPECT_EQ(readme.substr(first, end - first), field_table_markdown())
      << "regenerate with: TRIREME_UPDATE_KEYS=1 <build>/tests/config_test "
         "--gtest_filter='Readme.*'";
}

}  // namespace
}  // namespace trireme
