// SPDX-License-Identifier: Apache-2.0
// Inspection of archives and class folders without training, and their copies.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "data/images/inspect_images.h"
#include "data/preview.h"
#include "data/shard/data_file.h"
#include "runtime/nn/batch.h"
#include "tests/data/make_images.h"
#include "tests/data/make_tar.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::jpeg_of;
using test::pattern;
using test::png_of;
using test::tar_of;
using test::TarEntry;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class ImageTools : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_.path() + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static std::vector<ShardReport> verify(const std::string& name) {
    return verify_images({{name}}, [](auto, auto) { return [](std::uint64_t) {}; });
  }
  // Two archives of 40 images of 90 x 70 and 3 classes.
  std::string write_archives(const std::string& folder, const std::string& extension,
                             const std::string& before, const std::string& after) {
    for (int half = 0; half < 2; ++half) {
      std::vector<TarEntry> entries;
      for (int i = 20 * half; i < 20 * (half + 1); ++i) {
        entries.push_back({fmt::format("{}.jpg", i), jpeg_of(pattern(90, 70, 3, i))});
        entries.push_back(
            {fmt::format("{}.{}", i, extension), fmt::format("{}{}{}", before, i % 3, after)});
      }
      write(fmt::format("{}/{}.tar", folder, half), tar_of(entries));
    }
    return directory_.path() + "/" + folder;
  }
  std::vector<std::byte> pixels(const Dataset& data, std::int64_t index, std::int64_t epoch = 0) {
    std::vector<std::byte> bytes(data.layout().input_bytes());
    data.read_in_epoch(epoch, index, bytes, {&label_, 1});
    return bytes;
  }

  test::TemporaryDirectory directory_;
  std::int32_t label_ = 0;
};

TEST_F(ImageTools, VerifyingFindsDamageThatCropsMiss) {
  std::string damaged = jpeg_of(pattern(120, 120, 3, 1));
  damaged.replace(damaged.size() - 300, 4, "\xff\xd0\xff\xd1", 4);
  const std::string path = write("a.tar", tar_of({{"good.jpg", jpeg_of(pattern(120, 120, 3, 2))},
                                                  {"good.cls", "1"},
                                                  {"bad.jpg", damaged},
                                                  {"bad.cls", "1"},
                                                  {"bare.jpg", damaged}}));
  ImageOptions options{
      .source = {.images = {path}}, .height = 8, .width = 8, .crop = CropRange{{0.08, 0.2}}};
  options.damaged = Damaged::skip;
  const auto data = open_image_files(options, 1);
  int shown = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    static_cast<void>(pixels(*data, 1, epoch));
    shown += label_ == 1 ? 1 : 0;
  }
  EXPECT_GT(shown, 0);
  EXPECT_LT(shown, 20);

  const auto reports = verify(path);

  ASSERT_EQ(reports.size(), 1U);
  EXPECT_THAT(reports[0].problem, HasSubstr("bare.jpg: there is no label"));
  ASSERT_EQ(reports[0].others.size(), 1U);
  EXPECT_THAT(reports[0].others[0], HasSubstr("a.tar: bad.jpg: sample 1: damaged JPEG"));
}

TEST_F(ImageTools, VerifyingContinuesAfterInvalidAndChangingFiles) {
  const std::string good = tar_of({{"a.png", png_of(pattern(9, 9, 3, 1))}, {"a.cls", "1"}});
  write("set/0.tar", std::string("\x1f\x8b\x08", 3) + std::string(600, 'x'));
  ASSERT_EQ(::mkfifo((directory_.path() + "/set/1.tar").c_str(), 0600), 0);
  write("set/2.tar", good);
  const std::string changed = write("set/3.tar", good);
  std::atomic<std::uint64_t> read = 0;

  const auto reports = verify_images({{directory_.path() + "/set"}}, [&](auto, auto) {
    fs::resize_file(changed, 700);
    return [&](std::uint64_t bytes) { read += bytes; };
  });

  ASSERT_EQ(reports.size(), 4U);
  EXPECT_THAT(reports[0].problem, AllOf(HasSubstr("0.tar"), HasSubstr("compressed by gzip")));
  EXPECT_THAT(reports[1].problem, HasSubstr("1.tar: is not a regular file"));
  EXPECT_EQ(reports[2].problem, "");
  EXPECT_THAT(reports[3].problem, AllOf(HasSubstr("3.tar"), HasSubstr("changed")));
  EXPECT_GE(read, reports[2].bytes);
}

TEST_F(ImageTools, NamesOfMembersAreShownWithoutControlCharacters) {
  const auto reports = verify(write("a.tar", tar_of({{"a\x1b[31m\n.jpg", "x"}})));
  EXPECT_THAT(reports.at(0).problem, AllOf(HasSubstr("a\\x1b[31m\\x0a.jpg"), Not(HasSubstr("\n"))));
}

TEST_F(ImageTools, InspectingCountsImagesLabelsAndSizes) {
  const std::string folder = write_archives("set", "cls", "", "");
  write("set/2.tar", tar_of({{"a.webp", "x"}}));
  write("set/3.tar", tar_of({}));
  const std::string text = inspect_images({.names = {folder}, .preview = 1}).text;
  EXPECT_THAT(text,
              AllOf(HasSubstr("4 archive(s)"), HasSubstr("images       40,"),
                    HasSubstr("3 different, 0 to 2; 13 to 14 images each"),
                    HasSubstr("height 90 to 90, width 70 to 70 (of 40 images)"),
                    HasSubstr("wrong        1\n"), HasSubstr("a.webp: only JPEG and PNG images")));
  EXPECT_THAT(text, AllOf(HasSubstr("1.tar  20 images"), HasSubstr("3.tar: holds no images"),
                          HasSubstr("image 0, class 0 (0)\n")));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(inspect_images({{folder + "/2.tar"}})); }, "a.webp");
}

TEST_F(ImageTools, DescribingFindsLabelsSplitsAndASizeThatFits) {
  write_archives("json/train", "json", R"({"width": 70, "label": )", "}");
  write_archives("json/val", "json", R"({"width": 70, "label": )", "}");
  const std::string& root = directory_.path();
  const std::string text = describe_images({{root + "/json"}}).text;
  EXPECT_THAT(text, AllOf(HasSubstr("image_size: 64,"), HasSubstr("classes: 3}"),
                          HasSubstr(fmt::format("images: [\"{}/json/train\"]\n", root)),
                          HasSubstr(fmt::format("validation_images: [\"{}/json/val\"]\n", root))));
  EXPECT_THAT(text, AllOf(HasSubstr("label: \"json:label\"\n"), Not(HasSubstr("damaged"))));
  const std::string folder = write_archives("plain", "cls", "", "");
  EXPECT_THAT(describe_images({{folder}}).text, Not(HasSubstr("label:")));
  write("plain/2.tar", tar_of({{"a.jpg", "no image"}, {"a.cls", "6"}, {"b.jpg", "no label"}}));
  EXPECT_THAT(describe_images({{folder}}).text,
              AllOf(HasSubstr("classes: 7}"), HasSubstr("damaged: skip    # 1 cannot be samples"),
                    HasSubstr("b.jpg: there is no label b.cls")));
  expect_error(
      ExitCode::data,
      [&] {
        static_cast<void>(describe_images({{folder}, "txt"}));
      },
      "there is no label");
}

TEST_F(ImageTools, ImagesAreRecognisedByTheirNames) {
  const std::string& root = directory_.path();
  write("folders/cat/1.JPG", "x");
  write("fields/a.h5", "x");
  write("packed/train/shard_00000.h5", "x");
  write("packed/train.tar", "x");
  write("flat/1.jpg", "x");
  EXPECT_TRUE(names_images("any/*.tar"));
  EXPECT_TRUE(names_images(root + "/folders"));
  EXPECT_FALSE(names_images(root + "/fields"));
  EXPECT_FALSE(names_images(root + "/packed"));
  EXPECT_FALSE(names_images(root + "/flat"));
  EXPECT_FALSE(names_images(root + "/none"));
}

TEST_F(ImageTools, PreviewsAreTheCropsOfTheFirstEpoch) {
  const std::string folder = write_archives("set", "cls", "", "");
  const ImageOptions options{
      .source = {.images = {folder}}, .height = 16, .width = 12, .crop = CropRange{}};
  const auto data = open_image_files(options, 1);
  const auto paths = write_previews(*data, directory_.path() + "/out", 4);
  ASSERT_EQ(paths.size(), 4U);
  EXPECT_THAT(paths[1], EndsWith("sample_000010_label_1.png"));
  std::ifstream file(paths[1], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const Pixels image = decode_image(std::as_bytes(std::span(bytes)), 3, 1000, "preview");
  EXPECT_EQ(image.width, 12);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(image.data)), pixels(*data, 10)));
}

class CopiesOfArchives : public ImageTools {
 protected:
  CopiesOfArchives() {
    bytes_ = tar_of({{"good.jpg", jpeg_of(pattern(20, 20, 3, 1))},
                     {"good.cls", "1"},
                     {"bad.jpg", jpeg_of(pattern(20, 20, 3, 1)).substr(0, 200)},
                     {"bad.cls", "1"}});
    path_ = write("a.tar", bytes_);
    options_.source.images = {path_};
    options_.damaged = Damaged::skip;
    data_ = open_image_files(options_, 1);
    copy_ = LocalCopy::of(path_);
  }

  std::string bytes_, path_;
  ImageOptions options_{.height = 8, .width = 8};
  std::unique_ptr<ImageFilesDataset> data_;
  std::shared_ptr<LocalCopy> copy_;
};

TEST_F(CopiesOfArchives, ADamagedCopyIsReplacedByTheArchive) {
  const auto expected = pixels(*data_, 0);
  std::string damaged = bytes_;
  damaged.replace(700, 300, 300, 'x');
  copy_->publish(write("copy", damaged));

  EXPECT_EQ(pixels(*data_, 0), expected);
  EXPECT_EQ(label_, 1);
  EXPECT_FALSE(copy_->is_there());
}

TEST_F(CopiesOfArchives, AnImageThatIsDamagedInBothLeavesTheCopyInUse) {
  copy_->publish(write("copy", bytes_));
  static_cast<void>(pixels(*data_, 1));
  EXPECT_EQ(label_, ignored_target);
  EXPECT_TRUE(copy_->is_there());
  // A decoding error because the archive changes is no damage.
  fs::last_write_time(path_, fs::last_write_time(path_) + std::chrono::seconds(2));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pixels(*data_, 1)); }, "a.tar", "has changed");
}

}  // namespace
}  // namespace trireme
