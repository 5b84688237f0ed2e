// SPDX-License-Identifier: Apache-2.0
// Thousands of damaged configs: each is read or refused with ExitCode::config.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "runtime/base/philox.h"
#include "tests/config/support.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 40> fragments{":",        ": ",    "\n",
                                                     "\n  ",     " ",     "\t",
                                                     "{",        "}",     "[",
                                                     "]",        ",",     "-",
                                                     "- ",       "? ",    "&a",
                                                     "*a",       "!",     "!!int",
                                                     "#",        "'",     "\"",
                                                     "|",        ">",     "%YAML 1.2\n",
                                                     "---\n",    "...\n", "~",
                                                     "null",     "<<",    "\\x",
                                                     "\r",       "@",     "\xff",
                                                     "\xC3\xA9", "1e999", "-1",
                                                     "auto",     "0",     "999999999999999999999",
                                                     "train:"};

// Draws are counted, so a failing case is named by its number alone.
class Mutator {
 public:
  explicit Mutator(std::uint64_t number) : number_(number) {}

  std::string damage(std::string text) {
    const std::size_t edits = 1 + below(4);
    for (std::size_t i = 0; i < edits && !text.empty(); ++i)
      edit(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return generator_(number_, draw_++)[0] % limit; }

  void edit(std::string& text) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(text.size() - at, 24));
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, fragments[below(fragments.size())]);
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, length));
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text.replace(at, length, fragments[below(fragments.size())]);
        break;
      default:
        std::swap(text[at], text[below(text.size())]);
        break;
    }
  }

  Philox generator_ = Philox::keyed(1, RandomPurpose::test);
  std::uint64_t number_;
  std::uint64_t draw_ = 0;
};

TEST(ConfigMutations, AlwaysGiveAConfigOrAConfigError) {
  const std::string valid = to_yaml(default_config()) +
                            "# flow style as people write it\n"
                            "unknown: {a: [1, 2], b: \"text\", c: 'x'}\n";
  const std::string flow =
      "run: {directory: runs/a, seed: 7}\ndata: {path: x, mean: [0.5], std: [0.25]}\n"
      "optimizer: {name: adamw, betas: [0.9, 0.95]}\ntrain: {steps: 10, global_batch: 8}\n";
  int read = 0;

  for (std::uint64_t number = 0; number < 6000; ++number) {
    const std::string text = Mutator(number).damage(number % 2 == 0 ? flow : valid);
    try {
      const Config config = parse_config(text, "mutation.yaml", {});
      ++read;
      ASSERT_EQ(parse_config(to_yaml(config), "printed.yaml", {}), config)
          << "mutation " << number << ":\n"
          << text;
      static_cast<void>(resolve_config(config, Environment{.ranks = 2}));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::config) << "mutation " << number << ": " << error.what();
    } catch (const std::exception& error) {
      FAIL() << "mutation " << number << " raised " << error.what() << ":\n" << text;
    }
  }

  EXPECT_GT(read, 100) << "too few mutations were still valid to test anything";
}

TEST(ConfigMutations, OfOverridesAlwaysGiveAConfigOrAConfigError) {
  for (std::uint64_t number = 0; number < 2000; ++number) {
    const std::string text = Mutator(1'000'000 + number).damage("optimizer.betas=[0.9, 0.95]");
    try {
      static_cast<void>(parse_config("run: {}", "a.yaml", {text}));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::config) << text;
    }
  }
}

}  // namespace
}  // namespace trireme
