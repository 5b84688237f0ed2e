// SPDX-License-Identifier: Apache-2.0
#include "data/pack/pack_images.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>

#include "data/sets/dataset.h"
#include "data/verify.h"
#include "tests/data/make_images.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::big_endian;
using test::expect_error;
using test::jpeg_of;
using test::pattern;
using test::png_of;
using test::write_text;

std::string idx(const std::vector<std::uint32_t>& extents, const std::string& data) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents)
    bytes += big_endian(extent);
  return bytes + data;
}

std::string gzip(const std::string& bytes, const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

struct Image {
  std::vector<std::byte> pixels;
  std::int32_t label = -1;
};

std::vector<Image> images_of(const std::string& path) {
  for (const ShardReport& report : verify_dataset(path))
    EXPECT_EQ(report.problem, "");
  const auto dataset = Dataset::open(path, {});
  std::vector<Image> images(static_cast<std::size_t>(dataset->size()));
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i].pixels.resize(dataset->layout().input_bytes());
    dataset->read(static_cast<std::int64_t>(i), images[i].pixels, {&images[i].label, 1});
  }
  return images;
}

class PackImages : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& bytes) const {
    const std::string path = directory_.file(name);
    fs::create_directories(fs::path(path).parent_path());
    write_text(path, bytes);
    return path;
  }
  [[nodiscard]] PackImagesOptions options(const std::string& input,
                                          const std::string& labels = "") const {
    PackImagesOptions it;
    it.input = input;
    it.labels = labels;
    it.output = out_;
    it.threads = 3;
    return it;
  }
  template <typename... Parts>
  void expect_refused(ExitCode code, const PackImagesOptions& with, const Parts&... parts) const {
    expect_error(
        code, [&] { static_cast<void>(pack_images(with)); }, parts...);
    EXPECT_FALSE(fs::exists(out_));
  }

  test::TemporaryDirectory directory_;
  std::string out_ = directory_.file("out");
  std::string data_ = std::string("abcdefghijklmnopqrstuvwx");  // 4 images of 2 x 3
  std::string labels_ = std::string("\1\0\2\1", 4);
};

TEST_F(PackImages, KeepsIdxImagesAndLabelsPlainOrCompressed) {
  for (const bool compressed : {false, true}) {
    const std::string images = idx({4, 2, 3}, data_), labels = idx({4}, labels_);
    PackImagesOptions with = compressed ? options(gzip(images, directory_.file("i.gz")),
                                                  gzip(labels, directory_.file("l.gz")))
                                        : options(file("i", images), file("l", labels));
    with.shuffle = false;
    with.shard_images = 3;
    with.force = true;
    static_cast<void>(pack_images(with));

    const std::vector<Image> packed = images_of(out_);

    ASSERT_EQ(packed.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(packed[i].label, labels_[i]);
      EXPECT_EQ(std::memcmp(packed[i].pixels.data(), data_.data() + 6 * i, 6), 0);
    }
    EXPECT_EQ(open_shard(out_ + "/shard_00000.h5").header.classes,
              (std::vector<std::string>{"0", "1", "2"}));
  }
}

TEST_F(PackImages, ShufflesBySeedAndSplitsWithoutLosingOrDoubling) {
  std::string many, labels;
  for (int i = 0; i < 100; ++i) {
    many.push_back(static_cast<char>(i));
    labels.push_back(static_cast<char>(i % 10));
  }
  PackImagesOptions with =
      options(file("i", idx({100, 1, 1}, many)), file("l", idx({100}, labels)));
  with.validation = 0.25;
  static_cast<void>(pack_images(with));

  std::vector<Image> train = images_of(out_ + "/train");
  const std::vector<Image> validation = images_of(out_ + "/validation");

  EXPECT_EQ(train.size(), 75U);
  EXPECT_EQ(validation.size(), 25U);
  EXPECT_NE(train[0].pixels[0], std::byte{0});  // shuffled by the default seed
  train.insert(train.end(), validation.begin(), validation.end());
  std::vector<int> seen;
  for (const Image& image : train) {
    EXPECT_EQ(image.label, static_cast<int>(image.pixels[0]) % 10);
    seen.push_back(static_cast<int>(image.pixels[0]));
  }
  std::sort(seen.begin(), seen.end());
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_F(PackImages, NamesBrokenIdxFiles) {
  const std::string good_labels = file("l", idx({4}, labels_)),
                    good = file("i", idx({4, 2, 3}, data_));
  expect_refused(ExitCode::data, options(file("b", "no idx at all"), good_labels),
                 directory_.file("b"), "not an IDX file");
  expect_refused(ExitCode::data, options(file("b", ""), good_labels), directory_.file("b"),
                 "empty");
  expect_refused(ExitCode::data, options(file("b", idx({4, 2, 3}, data_.substr(1))), good_labels),
                 "truncated", "4 items of 6 bytes", "23");
  expect_refused(ExitCode::data, options(file("b", idx({4, 2, 3}, data_ + "x")), good_labels),
                 "more data");
  expect_refused(ExitCode::data, options(file("b", idx({4, 2}, "")), good_labels),
                 "not an IDX file");
  expect_refused(ExitCode::data, options(file("b", idx({4, 0, 3}, "")), good_labels),
                 "extent of 0");
  expect_refused(ExitCode::data, options(file("b", idx({1U << 31, 65536, 65536}, "")), good_labels),
                 "truncated");
  expect_refused(ExitCode::data, options(file("b", idx({4, 1U << 20, 3}, "")), good_labels),
                 "not supported");
  expect_refused(ExitCode::data, options(good, file("b", idx({3}, "abc"))), "3 labels", "4 images");
  expect_refused(ExitCode::data, options(good, file("b", idx({4, 2, 3}, data_))),
                 directory_.file("b"), "1 dimensions");
  expect_refused(ExitCode::data, options(directory_.file("none"), good_labels), "no such file");
  expect_refused(ExitCode::config, options(good), "--labels");
}

TEST_F(PackImages, NamesACutGzipFile) {
  const std::string whole =
      gzip(idx({400, 2, 3}, std::string(2400, 'q') + data_), directory_.file("whole.gz"));
  const std::string bytes = test::read_text(whole);
  const std::string cut = file("cut.gz", bytes.substr(0, bytes.size() / 2));
  expect_refused(ExitCode::data, options(cut, file("l", idx({4}, labels_))), cut, "ends early");
}

TEST_F(PackImages, NamesALabelOutsideTheClasses) {
  PackImagesOptions with = options(file("i", idx({4, 2, 3}, data_)), file("l", idx({4}, labels_)));
  with.class_names = {"shirt", "boot"};
  expect_refused(ExitCode::data, with, directory_.file("l"), "label 2 of image 2", "2 classes");
}

TEST_F(PackImages, PacksAFolderTreeOfPngAndJpeg) {
  const Pixels red{4, 4, 3, [] {
                     std::vector<std::uint8_t> data;
                     for (int i = 0; i < 16; ++i)
                       data.insert(data.end(), {200, 10, 10});
                     return data;
                   }()};
  const Pixels grey = pattern(4, 4, 1, 3);
  file("tree/cat/1.png", png_of(grey));
  file("tree/cat/sub/2.PNG", png_of(red));
  file("tree/ant/misnamed.png", jpeg_of(red));  // decided by content
  file("tree/ant/.hidden", "not an image");
  PackImagesOptions with = options(directory_.file("tree"));
  with.shuffle = false;
  static_cast<void>(pack_images(with));

  const std::vector<Image> packed = images_of(out_);

  EXPECT_EQ(open_shard(out_ + "/shard_00000.h5").header.classes,
            (std::vector<std::string>{"ant", "cat"}));
  ASSERT_EQ(packed.size(), 3U);
  EXPECT_EQ(packed[0].label, 0);
  EXPECT_NEAR(static_cast<int>(packed[0].pixels[0]), 200, 4);  // JPEG is lossy
  EXPECT_EQ(packed[1].label, 1);
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(static_cast<std::uint8_t>(packed[1].pixels[3 * i + c]), grey.data[i]);
  }
  EXPECT_EQ(std::memcmp(packed[2].pixels.data(), red.data.data(), 48), 0);
}

TEST_F(PackImages, DoesNotDependOnTheNumberOfThreads) {
  for (int i = 0; i < 20; ++i) {
    file(fmt::format("tree/{}/{}.jpg", i % 3, i), jpeg_of(pattern(20 + i, 31 - i, 3, i)));
  }
  std::vector<std::string> shards;
  for (const std::int64_t threads : {1, 2, 7}) {
    PackImagesOptions with = options(directory_.file("tree"));
    with.resize = 16;
    with.threads = threads;
    with.force = true;
    static_cast<void>(pack_images(with));
    shards.push_back(test::read_text(out_ + "/shard_00000.h5"));
  }
  EXPECT_TRUE(shards[0] == shards[1]);
  EXPECT_TRUE(shards[0] == shards[2]);
}

TEST_F(PackImages, NamesAnImageOfAnotherSizeAndResizesWhenAsked) {
  file("tree/a/1.png", png_of(pattern(6, 9, 3, 1)));
  file("tree/a/2.png", png_of(pattern(7, 9, 3, 2)));
  PackImagesOptions with = options(directory_.file("tree"));
  with.shuffle = false;
  expect_refused(ExitCode::data, with, "2.png: is 7 x 9", "1.png is 6 x 9", "--resize");

  with.resize = 5;
  with.channels = 1;
  static_cast<void>(pack_images(with));

  EXPECT_EQ(Dataset::open(out_, {})->layout().inputs, (Shape{5, 5, 1}));
}

TEST_F(PackImages, NamesTheFirstBadImageOrSkipsThemAll) {
  const std::string good = png_of(pattern(5, 5, 3, 1)), jpeg = jpeg_of(pattern(5, 5, 3, 1));
  std::string wrong_checksum = good;
  wrong_checksum[wrong_checksum.size() - 14] ^=
      1;  // inside the checksum of the data chunk or the data itself
  file("tree/a/1.png", good);
  file("tree/a/2.png", wrong_checksum);
  file("tree/a/3.jpg", jpeg.substr(0, jpeg.size() - 40));
  file("tree/a/4.txt", "notes");
  file("tree/a/5.jpg", "");
  PackImagesOptions with = options(directory_.file("tree"));
  with.shuffle = false;
  expect_refused(ExitCode::data, with, "2.png: damaged PNG", "--skip-bad");

  with.skip_bad = true;
  const PackedImages packed = pack_images(with);

  EXPECT_EQ(packed.splits[0].samples, 1U);
  ASSERT_EQ(packed.skipped.size(), 4U);
  EXPECT_NE(packed.skipped[1].find("3.jpg: damaged JPEG"), std::string::npos) << packed.skipped[1];
  EXPECT_NE(packed.skipped[2].find("4.txt: is neither JPEG nor PNG"), std::string::npos);
  EXPECT_NE(packed.skipped[3].find("5.jpg: is empty"), std::string::npos);
}

TEST_F(PackImages, NamesFolderProblems) {
  file("flat/1.png", png_of(pattern(2, 2, 1, 1)));
  expect_refused(ExitCode::data, options(directory_.file("flat")), "no class folders");
  fs::create_directories(directory_.file("hollow/a"));
  expect_refused(ExitCode::data, options(directory_.file("hollow")), "hollow/a", "holds no images");
  file("tree/dog/1.png", png_of(pattern(2, 2, 1, 1)));
  PackImagesOptions with = options(directory_.file("tree"));
  with.class_names = {"cat"};
  expect_refused(ExitCode::data, with, "tree/dog", "--class-names");
  with.class_names = {"cat", "cat"};
  expect_refused(ExitCode::config, with, "'cat' is given twice");
}

}  // namespace
}  // namespace trireme
