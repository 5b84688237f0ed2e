// SPDX-License-Identifier: Apache-2.0
// Trees of splits and classes, and the files below them.
#include "data/pack/images/image_tree.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "data/files/parallel.h"
#include "data/pack/pack_images.h"
#include "data/pack/progress.h"
#include "data/sets/dataset.h"
#include "tests/data/make_images.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using Names = std::vector<std::string>;

class ImageTrees : public testing::Test {
 protected:
  void add(const std::string& name) const {
    const std::string path = directory_.file("tree/" + name);
    fs::create_directories(fs::path(path).parent_path());
    test::write_text(path, test::png_of(test::pattern(2, 2, 3, 1)));
  }
  [[nodiscard]] ImageTree tree(const Names& classes = {}) const {
    return list_images(directory_.file("tree"), classes);
  }
  template <typename... Parts>
  void expect_refused(const Parts&... parts) const {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(tree()); }, directory_.file("tree"), parts...);
  }
  [[nodiscard]] PackImagesOptions options() const {
    PackImagesOptions it;
    it.input = directory_.file("tree");
    it.output = directory_.file("out");
    it.threads = 1;
    return it;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(ImageTrees, SplitsArePackedApartWithOneListOfClasses) {
  for (const char* file : {"train/cats/1", "train/dogs/1", "train/dogs/2", "val/dogs/3"})
    add(file);

  const PackedImages packed = pack_images(options());

  ASSERT_EQ(packed.splits.size(), 2U);
  EXPECT_EQ(packed.splits[0].path, directory_.file("out/train"));
  EXPECT_EQ(packed.splits[0].samples, 3U);
  EXPECT_EQ(packed.splits[1].path, directory_.file("out/validation"));
  EXPECT_EQ(packed.splits[1].samples, 1U);
  for (const char* split : {"train", "validation"}) {
    const auto data = Dataset::open(directory_.file("out"), {.split = split});
    EXPECT_EQ(data->shards().front().header.classes, (Names{"cats", "dogs"})) << split;
  }
  EXPECT_EQ(tree().splits[1].labels, (std::vector<std::int32_t>{1}));
}

TEST_F(ImageTrees, SplitsAreNotSplitAgain) {
  add("train/cats/1");
  PackImagesOptions with = options();
  with.validation = 0.5;
  expect_error(
      ExitCode::config, [&] { static_cast<void>(pack_images(with)); }, "--validation",
      "already contains splits");
  with.validation.reset();
  with.split = "train";
  expect_error(
      ExitCode::config, [&] { static_cast<void>(pack_images(with)); }, "--split", "--classes-of");
}

TEST_F(ImageTrees, AClassThatTrainingLacksIsRefused) {
  add("train/cats/1");
  add("test/Cats/1");
  expect_refused("test/Cats", "split train");
  EXPECT_EQ(tree({"Cats", "cats"}).splits.size(), 2U);
}

TEST_F(ImageTrees, AmbiguousFoldersAreRefusedUnlessNamed) {
  add("train/1");
  add("test/1");
  expect_refused("train", "--class-names test,train");
  EXPECT_EQ(tree({"test", "train"}).splits.front().labels, (std::vector<std::int32_t>{0, 1}));

  add("boat/1");  // now they are vehicles
  EXPECT_EQ(tree().classes, (Names{"boat", "test", "train"}));

  add("val/cats/1");
  expect_refused("val", "beside the folder boat");
}

TEST_F(ImageTrees, OneSplitUnderTwoNamesIsRefused) {
  add("val/cats/1");
  add("validation/cats/1");
  expect_refused("val and validation");
}

// Shards list the names of classes in lines.
TEST_F(ImageTrees, AClassWithALineBreakInItsNameIsRefused) {
  add("cats\nand dogs/1");
  add("birds/1");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pack_images(options())); }, directory_.file("tree"),
      "'cats...'");
  EXPECT_FALSE(fs::exists(directory_.file("out")));
}

TEST_F(ImageTrees, AFileIsPackedOnceHoweverItIsLinked) {
  add("cats/1");
  add("dogs/1");
  fs::create_symlink("../cats/1", directory_.file("tree/dogs/0"));
  fs::create_symlink("../dogs", directory_.file("tree/cats/more"));
  fs::create_symlink("../..", directory_.file("tree/cats/up"));
  fs::create_symlink("nothing", directory_.file("tree/cats/2"));

  const ImageTree::Split all = tree().splits.front();

  EXPECT_EQ(all.files, (Names{directory_.file("tree/cats/1"), directory_.file("tree/dogs/1")}));
  EXPECT_EQ(all.labels, (std::vector<std::int32_t>{0, 1}));
}

TEST_F(ImageTrees, LinkedFoldersAreClasses) {
  add("cats/1");
  fs::create_directory(directory_.file("apart"));
  fs::rename(directory_.file("tree/cats"), directory_.file("apart/cats"));
  fs::create_symlink("../apart/cats", directory_.file("tree/dogs"));

  EXPECT_EQ(tree().splits.front().files, (Names{directory_.file("tree/dogs/1")}));
}

TEST(InterruptionDeathTest, EndsALoopOverItemsAndThenTheProcess) {
  const auto interrupted = [] {
    const Interruption interruption;
    ::raise(SIGTERM);
    try {
      parallel_for(4, 2, [](std::size_t) {});
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
    }
  };
  EXPECT_EXIT(interrupted(), testing::KilledBySignal(SIGTERM), "nothing was written");
}

}  // namespace
}  // namespace trireme
