// SPDX-License-Identifier: Apache-2.0
#include "data/sets/id_names.h"

#include <gtest/gtest.h>

#include "tests/data/make_data.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

using Classes = std::vector<std::string>;

IdNames tokenizer(const std::string& source, const std::string& name) {
  return {source, name, {}};
}
IdNames classes(const std::string& source, Classes names) {
  return {source, {}, std::move(names)};
}

TEST(IdNames, RefuseAnotherTokenizerNamingBoth) {
  test::expect_error(
      ExitCode::data,
      [] { require_same_ids(tokenizer("a.h5", "bytes"), tokenizer("b.h5", "huggingface:x")); },
      "a.h5", "bytes", "b.h5", "huggingface:x");
}

TEST(IdNames, CompareTokenizersByTheirChecksum) {
  const auto one = tokenizer("a", "huggingface:tokenizer.json:xxh3=0123456789abcdef");
  require_same_ids(one, tokenizer("b", "huggingface:gpt2.json:xxh3=0123456789abcdef"));
  test::expect_error(
      ExitCode::data,
      [&] {
        require_same_ids(one, tokenizer("b", "huggingface:tokenizer.json:xxh3=0123456789abcdee"));
      },
      "cdee");
  // By the tokens if both have their checksum, else by the file.
  const std::string resaved = "huggingface:tokenizer.json:xxh3=0123456789abcdee:tokens=";
  const auto both =
      tokenizer("a", "huggingface:t.json:xxh3=0123456789abcdef:tokens=00000000000000aa");
  require_same_ids(both, tokenizer("b", resaved + "00000000000000aa"));
  require_same_ids(one, both);
  for (const auto& [wanted, other] :
       {std::pair{both, "00000000000000ab"}, {one, "00000000000000aa"}})
    test::expect_error(
        ExitCode::data, [&] { require_same_ids(wanted, tokenizer("b", resaved + other)); }, "cdee");
}

TEST(IdNames, RefuseOtherClassesNamingTheFirstThatDiffers) {
  const auto wanted = classes("a", {"cats", "dogs"});
  test::expect_error(
      ExitCode::data,
      [&] {
        require_same_ids(wanted, classes("b", {"ape", "cats", "zebra"}));
      },
      "b: its class 0 is 'ape', but 'cats' in a", "3: ape, cats, zebra", "2: cats, dogs");
  test::expect_error(
      ExitCode::data,
      [&] {
        require_same_ids(wanted, classes("b", {"cats", "dogs", "eels"}));
      },
      "class 2 is 'eels', but absent in a");
  test::expect_error(
      ExitCode::data,
      [&] {
        require_same_ids(wanted, classes("b", {"0", "1", "2"}));
      },
      "a", "b");
}

TEST(IdNames, AcceptUnknownMeanings) {
  require_same_ids(tokenizer("a", ""), tokenizer("b", "bytes"));
  require_same_ids(tokenizer("a", "bytes"), tokenizer("b", ""));
  require_same_ids(classes("a", {"cats", "dogs"}), classes("b", {"0", "1"}));
  require_same_ids(classes("a", {"0", "1"}), classes("b", {"cats", "dogs", "eels"}));
  require_same_ids(classes("a", {"0", "1", "2"}), classes("b", {"0", "1"}));
  require_same_ids(classes("a", {"cats"}), classes("b", {}));
}

TEST(IdNames, AreReadFromTheFirstShard) {
  const test::TemporaryDirectory directory;
  test::write_image_dataset(directory.file("set/validation"), 4, 2, 3, 2);

  const IdNames names = id_names_at(directory.file("set"), "validation");

  EXPECT_EQ(names.source, directory.file("set/validation/shard_00000.h5"));
  EXPECT_EQ(names.classes, (Classes{"class 0", "class 1"}));
}

}  // namespace
}  // namespace trireme
