// SPDX-License-Identifier: Apache-2.0
// Archives and class folders of images read in place.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "data/images/files_dataset.h"
#include "data/images/image_sources.h"
#include "runtime/base/atomic_file.h"
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
using test::pax_record;
using test::png_of;
using test::tar_member;
using test::tar_of;
using test::TarEntry;

class ImagesInPlace : public testing::Test {
 protected:
  // An image with pixels that identify their place: red grows with rows, green with columns.
  static Pixels slope(std::int64_t height, std::int64_t width, std::uint8_t blue) {
    Pixels image{height, width, 3, {}};
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        image.data.insert(image.data.end(), {static_cast<std::uint8_t>(y * 255 / height),
                                             static_cast<std::uint8_t>(x * 255 / width), blue});
      }
    }
    return image;
  }
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = directory_.path() + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static ImageIndex index_of(const std::string& path, const std::string& label = "cls") {
    return index_of_archive(path, label_rule(label));
  }
  static std::unique_ptr<ImageFilesDataset> open(const std::vector<std::string>& names,
                                                 const ImageOptions& options) {
    const ImageScan scan{find_images(names), label_rule(options.source.label)};
    return std::make_unique<ImageFilesDataset>(scan_images(scan, scan.sources.paths, 2),
                                               scan.sources.classes, options);
  }
  static std::vector<std::byte> pixels(const Dataset& data, std::int64_t index,
                                       std::int64_t epoch = 0) {
    std::vector<std::byte> bytes(data.layout().input_bytes());
    std::int32_t label = 0;
    data.read_in_epoch(epoch, index, bytes, {&label, 1});
    return bytes;
  }

  test::TemporaryDirectory directory_;
  ImageOptions small_{.height = 8, .width = 8};
};

TEST_F(ImagesInPlace, SamplesAreMembersOfOneNameUpToItsFirstDot) {
  const std::string path =
      write("a.tar", tar_of({{"./", "", '5'},
                             {"one/dog.1.cls", "9"},  // extension "1.cls": no label
                             {"one/dog.JPG", "jpeg"},
                             {"README", "no sample"},
                             {"one/dog.cls", " 4\n"},
                             {"two/dog.cls", "5"},
                             {"two/dog.json", "{}"},
                             {"two/dog.png", "png!"}}));

  const ImageIndex index = index_of(path);

  ASSERT_EQ(index.images.size(), 2U);
  EXPECT_TRUE(index.problems.empty());
  EXPECT_EQ(index.images[0].label, 4);
  EXPECT_EQ(index.images[1].label, 5);
  EXPECT_EQ(member_at(path, index.images[0].place), "one/dog.JPG");
  EXPECT_EQ(index.images[1].bytes, 4U);
  EXPECT_EQ(parse_image_index(bytes_of(index)), index);
}

TEST_F(ImagesInPlace, LabelsMayBeFieldsOfJson) {
  const std::string path =
      write("a.tar", tar_of({{"a.jpg", "x"}, {"a.json", R"({"label": 3, "name": "cat"})"}}));
  EXPECT_EQ(index_of(path, "json:label").images.at(0).label, 3);
  EXPECT_NE(index_of(path, "json:name").problems.at(0).find("a.json: has no whole number"),
            std::string::npos);
  EXPECT_NE(index_of(path).problems.at(0).find("there is no label a.cls for it"),
            std::string::npos);
}

TEST_F(ImagesInPlace, LongNamesAndLargeSizesOfPaxAndGnuAreRead) {
  const std::string deep = std::string(90, 'd') + "/" + std::string(120, 'n');
  const std::string gnu("ustar  ", 8);
  std::string base256(12, '\0');
  base256[0] = '\x80';
  base256[11] = 5;
  const std::string path = write(
      "a.tar", tar_of({{"pax", pax_record("path", deep + "1.jpg") + pax_record("size", "5"), 'x'},
                       {"short", "12345", '0', std::string("ustar\00000", 8), "00000000000"},
                       {"pax", pax_record("path", deep + "1.cls"), 'x'},
                       {"short", "1"},
                       {"././@LongLink", deep + "2.png" + std::string(1, '\0'), 'L', gnu},
                       {"short", "12345", '0', gnu, base256},
                       {"././@LongLink", deep + "2.cls", 'L', gnu},
                       {"short", "2", '0', gnu}}));
  const ImageIndex index = index_of(path);
  ASSERT_EQ(index.images.size(), 2U);
  EXPECT_EQ(member_at(path, index.images[0].place), deep + "1.jpg");
  EXPECT_EQ(member_at(path, index.images[1].place), deep + "2.png");
  EXPECT_EQ(index.images[1].bytes, 5U);
}

TEST_F(ImagesInPlace, InvalidArchivesAreRefusedByPlaceAndReason) {
  const TarEntry image{"a.jpg", "x"}, label{"a.cls", "1"};
  const auto first_problem = [&](const std::string& bytes) {
    const ImageIndex index = index_of(write("bad.tar", bytes));
    return index.problems.empty() ? "none" : index.problems.front();
  };
  const auto expect = [&](const std::string& bytes, const std::string& reason) {
    const std::string problem = first_problem(bytes);
    EXPECT_NE(problem.find(reason), std::string::npos) << problem;
    EXPECT_NE(problem.find("bad.tar"), std::string::npos) << problem;
  };
  const std::string good = tar_of({image, label});
  expect(good.substr(0, 1536), "go past the end of the archive");
  expect(good.substr(0, 2048), "without its end mark: it is truncated");
  expect(good + good, "more data follows the end mark");
  for (const auto& [type, what] :
       std::vector<std::pair<char, std::string>>{{'1', "a hard link"},
                                                 {'2', "a symbolic link"},
                                                 {'3', "a device"},
                                                 {'6', "a named pipe"},
                                                 {'S', "a sparse file"},
                                                 {'M', "not a regular file"}})
    expect(tar_of({image, label, {"b.jpg", "", type}}), "b.jpg: is " + what);
  expect(tar_of({image, label, {"p", pax_record("GNU.sparse.size", "9"), 'x'}, image}),
         "a sparse file");
  expect(tar_of({image, label, {"p", "99 path=x\n", 'x'}, image}), "damaged records");
  expect(tar_of({image, label, {"p", pax_record("path", "x.jpg"), 'x'}}), "that is missing");
  expect(tar_of({image, label, {"g", pax_record("path", "x.jpg"), 'g'}}), "a global header");
  expect(tar_of({image, label, {"b.jpg", "", '0', "garbage!"}}), "neither ustar");
  expect(tar_of({image, label, {"b.jpg", "", '0', std::string("ustar\00000", 8), "77777777777"}}),
         "go past the end");
  expect(tar_of({image, label, {"b.jpg", "", '0', std::string("ustar\00000", 8), "12x"}}),
         "damaged size");
  std::string flipped = tar_of({image, label, {"b.jpg", "x"}});
  flipped[2050] = 'z';
  expect(flipped, "its checksum does not match");
  // In the first header: no archive at all.
  expect_error(
      ExitCode::data,
      [&] { static_cast<void>(index_of(write("text.tar", std::string(4096, 'a')))); }, "text.tar",
      "checksum");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(index_of(write("none.tar", ""))); }, "none.tar",
      "end mark");
}

TEST_F(ImagesInPlace, MembersThatMakeNoSampleAreProblems) {
  const auto problem = [&](const std::vector<TarEntry>& entries) {
    const ImageIndex index = index_of(write("odd.tar", tar_of(entries)));
    return index.problems.size() == 1 ? index.problems.front() : "not one problem";
  };
  const TarEntry image{"a.jpg", "x"}, label{"a.cls", "1"};
  EXPECT_TRUE(problem({image, label, image}).ends_with("a.jpg: its sample a already has a.jpg"));
  EXPECT_TRUE(problem({image, label, {"a.png", "x"}}).ends_with("already has a.jpg"));
  EXPECT_TRUE(problem({image, label, label}).ends_with("a.cls: its sample a already has a label"));
  EXPECT_NE(problem({image}).find("a.jpg: there is no label a.cls"), std::string::npos);
  EXPECT_NE(problem({label}).find("a: has a label, but no image"), std::string::npos);
  EXPECT_TRUE(problem({{"a.jpg", ""}, label}).ends_with("a.jpg: is empty"));
  EXPECT_NE(problem({image, {"a.cls", "cat"}}).find("'cat' is not a label"), std::string::npos);
  EXPECT_NE(problem({image, {"a.cls", "-1"}}).find("'-1' is not a label"), std::string::npos);
  EXPECT_NE(problem({image, label, {"b.webp", "x"}}).find("JPEG and PNG"), std::string::npos);
}

TEST_F(ImagesInPlace, DamageIsRefusedByArchiveAndMemberOrSkippedAndCounted) {
  const std::string good = jpeg_of(slope(20, 20, 9));
  std::string bomb = png_of(slope(4, 4, 1));
  bomb.replace(16, 8, test::big_endian(65000) + test::big_endian(65000));
  bomb.replace(29, 4,
               test::big_endian(static_cast<std::uint32_t>(
                   crc32(0, reinterpret_cast<const Bytef*>(bomb.data()) + 12, 17))));
  const std::string path = write("a.tar", tar_of({{"good.jpg", good},
                                                  {"good.cls", "2"},
                                                  {"cut.jpg", good.substr(0, good.size() - 50)},
                                                  {"cut.cls", "1"},
                                                  {"bomb.png", bomb},
                                                  {"bomb.cls", "1"}}));
  {
    const auto data = open({path}, small_);
    EXPECT_EQ(data->size(), 3);
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pixels(*data, 1)); }, "a.tar: cut.jpg",
        "its end is missing", "data.damaged: skip");
    expect_error(
        ExitCode::data, [&] { static_cast<void>(pixels(*data, 2)); }, "a.tar: bomb.png",
        "65000 x 65000", "data.max_pixels");
  }
  small_.damaged = Damaged::skip;
  const auto data = open({path}, small_);
  std::vector<std::byte> bytes(data->layout().input_bytes(), std::byte{1});
  std::int32_t label = 0;
  data->read(1, bytes, {&label, 1});
  EXPECT_EQ(label, ignored_target);
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size()));
  data->read(0, bytes, {&label, 1});
  EXPECT_EQ(label, 2);
  EXPECT_NE(data->shortcomings().find("1 samples"), std::string::npos);
  // Problems of the index are skipped too: a missing label, a cut archive.
  const std::string whole =
      tar_of({{"a.jpg", good}, {"a.cls", "0"}, {"b.jpg", good}, {"c.jpg", good}, {"c.cls", "1"}});
  const std::string odd = write("odd.tar", whole.substr(0, whole.size() - 1536));
  EXPECT_EQ(open({odd}, small_)->size(), 1);
  small_.damaged = Damaged::refuse;
  expect_error(
      ExitCode::data, [&] { static_cast<void>(open({odd}, small_)); }, "odd.tar", "truncated");
}

TEST_F(ImagesInPlace, ClassFoldersAreClassesInOrderOfTheirNames) {
  write("set/zebra/1.jpg", jpeg_of(slope(9, 9, 1)));
  write("set/ant/below/2.PNG", png_of(slope(9, 9, 2)));
  write("set/ant/1.jpeg", jpeg_of(slope(9, 9, 3)));
  write("set/ant/notes.txt", "x");
  ASSERT_EQ(::mkfifo((directory_.path() + "/set/ant/pipe.jpg").c_str(), 0600), 0);

  const auto data = open({directory_.path() + "/set/"}, small_);

  ASSERT_EQ(data->size(), 3);
  EXPECT_TRUE(data->place_of(0).ends_with("set/ant/1.jpeg"));
  EXPECT_TRUE(data->place_of(1).ends_with("set/ant/below/2.PNG"));
  EXPECT_EQ(data->label(1), 0);
  EXPECT_EQ(data->label(2), 1);
  EXPECT_EQ(data->id_names().classes, (std::vector<std::string>{"ant", "zebra"}));
  const auto& notes = data->indexes().front().notes;
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_NE(notes[0].find("pipe.jpg"), std::string::npos);
  EXPECT_NE(notes[1].find("notes.txt"), std::string::npos);
  const ImageIndex& folder = data->indexes().front();
  EXPECT_EQ(parse_image_index(bytes_of(folder)), folder);
}

TEST_F(ImagesInPlace, AClassFolderWithALineBreakInItsNameIsRefused) {
  write("set/a\nb/1.jpg", jpeg_of(slope(9, 9, 1)));
  expect_error(
      ExitCode::data, [&] { static_cast<void>(find_images({directory_.path() + "/set"})); },
      "data.images", "'a...'");
}

TEST_F(ImagesInPlace, NamesWithoutImagesAreRefused) {
  const auto refused = [&](const std::vector<std::string>& names, const std::string& what) {
    expect_error(
        ExitCode::data, [&] { static_cast<void>(open(names, small_)); }, what);
  };
  const std::string& root = directory_.path();
  refused({root + "/none"}, "there is no such file");
  refused({root + "/*.tar"}, "no matching file");
  refused({root}, "neither *.tar nor class folders");
  write("splits/train/cat/1.jpg", "x");
  write("splits/val/cat/1.jpg", "x");
  refused({root + "/splits"}, "holds the splits");
  fs::create_directories(root + "/empty/cat");
  refused({root + "/empty"}, "cat: the class folder holds no images");
  write("mixed/a.tar", "x");
  write("mixed/cat/1.jpg", "x");
  refused({root + "/mixed"}, "holds archives");
  refused({root + "/splits/train", root + "/splits/val"}, "must be the only name");
  const std::string path = write("l.tar", tar_of({{"a.jpg", "x"}, {"a.cls", "7"}}));
  small_.classes = 7;
  refused({path}, "l.tar: a.jpg: has the label 7");
}

TEST_F(ImagesInPlace, FilesThatChangeAreRefused) {
  const std::string bytes = jpeg_of(slope(9, 9, 1));
  const std::string file = write("set/cat/1.jpg", bytes);
  const std::string archive = write("a.tar", tar_of({{"a.jpg", bytes}, {"a.cls", "1"}}));
  const auto folder = open({directory_.path() + "/set"}, small_), tar = open({archive}, small_);
  static_cast<void>(pixels(*folder, 0));
  const auto later = fs::last_write_time(file) + std::chrono::seconds(2);
  fs::last_write_time(file, later);
  fs::last_write_time(archive, later);
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pixels(*folder, 0)); }, "1.jpg", "has changed");
  expect_error(
      ExitCode::data, [&] { static_cast<void>(pixels(*tar, 0)); }, "a.tar", "has changed");
}

TEST_F(ImagesInPlace, KeptIndexesServeAsLongAsNothingChanges) {
  write("set/cat/1.jpg", jpeg_of(slope(9, 9, 1)));
  write("set/dog/1.jpg", jpeg_of(slope(9, 9, 1)));
  const std::string kept = directory_.path() + "/data.index";
  ImageScan scan{find_images({directory_.path() + "/set"}), label_rule("cls")};
  keep_image_indexes(kept, scan, scan_images(scan, scan.sources.paths, 1));
  EXPECT_EQ(kept_images(kept, scan).good.size(), 2U);
  const std::string dog = directory_.path() + "/set/dog";
  fs::last_write_time(dog, fs::last_write_time(kept) + std::chrono::seconds(2));
  const KeptImages one = kept_images(kept, scan);
  EXPECT_EQ(one.good.size(), 1U);
  ASSERT_EQ(one.stale.size(), 1U);
  EXPECT_TRUE(touched_files(one.stale[0], index_of_folder(dog, 1)).empty());
  fs::last_write_time(dog + "/1.jpg", fs::last_write_time(kept) + std::chrono::seconds(2));
  EXPECT_EQ(touched_files(one.stale[0], index_of_folder(dog, 1)),
            std::vector<std::string>{dog + "/1.jpg"});
  scan.rule = label_rule("txt");
  EXPECT_TRUE(kept_images(kept, scan).good.empty());
  write("data.index", "damaged");
  EXPECT_TRUE(kept_images(kept, scan).good.empty());
}

// The crop equals random_crop's: the red and green of the image show its place.
TEST_F(ImagesInPlace, RandomCropsDependOnSeedSampleAndEpochAlone) {
  const std::string path = write("a.tar", tar_of({{"a.png", png_of(slope(200, 160, 1))},
                                                  {"a.cls", "1"},
                                                  {"b.png", png_of(slope(200, 160, 1))},
                                                  {"b.cls", "1"}}));
  small_.crop = CropRange{};
  small_.seed = 7;
  const auto data = open({path}, small_);
  const Region region = random_crop({200, 160}, CropRange{}, 7, 1, 3);
  const auto bytes = pixels(*data, 1, 3);
  const auto value = [&](std::size_t at) { return static_cast<double>(bytes.at(at)); };
  // The first pixel's centre is half a step inside the region.
  const double row = static_cast<double>(region.top) + static_cast<double>(region.height) / 16,
               column = static_cast<double>(region.left) + static_cast<double>(region.width) / 16;
  EXPECT_NEAR(value(0), row * 255 / 200, 3);
  EXPECT_NEAR(value(1), column * 255 / 160, 3);
  EXPECT_EQ(pixels(*data, 1, 3), bytes);
  EXPECT_NE(pixels(*data, 1, 4), bytes);
  EXPECT_NE(pixels(*data, 0, 3), bytes);
  // The same from another thread, after other samples.
  std::vector<std::byte> elsewhere;
  std::thread([&] {
    static_cast<void>(pixels(*data, 0, 9));
    elsewhere = pixels(*data, 1, 3);
  }).join();
  EXPECT_EQ(elsewhere, bytes);
  small_.seed = 8;
  EXPECT_NE(pixels(*open({path}, small_), 1, 3), bytes);
}

TEST(RandomCrop, StaysInTheImageAndInItsRanges) {
  const CropRange range;
  double least = 1, most = 0;
  for (std::int64_t sample = 0; sample < 2000; ++sample) {
    const ImageSize image{300 + sample % 7, 400 - sample % 11};
    const Region region = random_crop(image, range, 1, sample, 0);
    EXPECT_GE(region.top, 0);
    EXPECT_GE(region.left, 0);
    EXPECT_LE(region.top + region.height, image.height);
    EXPECT_LE(region.left + region.width, image.width);
    const double ratio = static_cast<double>(region.width) / static_cast<double>(region.height);
    EXPECT_GT(ratio, 0.74);
    EXPECT_LT(ratio, 1.35);
    const double share = static_cast<double>(region.width * region.height) /
                         static_cast<double>(image.width * image.height);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(least, 0.07);
  EXPECT_GT(most, 0.9);
  // No ratio fits: the centre, as wide as allowed.
  EXPECT_EQ(random_crop({10, 1000}, {{0.9, 1}, {0.75, 4.0 / 3}}, 1, 2, 3),
            (Region{0, 493, 10, 13}));
  EXPECT_EQ(random_crop({1, 1}, range, 1, 2, 3), (Region{0, 0, 1, 1}));
}

TEST_F(ImagesInPlace, EvaluationTakesTheCentreOfTheShortSideResized) {
  const std::string png = png_of(slope(300, 400, 1));
  const std::string path = write("a.tar", tar_of({{"a.png", png}, {"a.cls", "1"}}));
  const ImageOptions options{.height = 224, .width = 224};
  const auto bytes = pixels(*open({path}, options), 0);
  // The short side becomes 256; 16 of them are cut off on either side: 18.75 of 300 rows.
  EXPECT_NEAR(static_cast<double>(bytes.at(0)), 18.75 * 255 / 300, 1.5);
  EXPECT_NEAR(static_cast<double>(bytes.at(1)), (50 + 18.75) * 255 / 400, 1.5);
  EXPECT_EQ(bytes, pixels(*open({path}, options), 0, 5));  // in every epoch
  // As in packing, if nothing is cropped.
  const ImageOptions whole{.source = {.eval_resize = 32}, .height = 32, .width = 32};
  const Pixels packed = resize_and_crop(slope(300, 400, 1), 32);
  const auto same = pixels(*open({path}, whole), 0);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(packed.data)), same));
}

TEST_F(ImagesInPlace, ReducedDecodingShowsTheSamePicture) {
  const Pixels picture = slope(640, 480, 100);
  const std::string jpeg = jpeg_of(picture, {2, 2});
  const Pixels decoded =
      decode_image(std::as_bytes(std::span(jpeg)), 3, std::uint64_t{1} << 20, "a.jpg");
  const std::string path =
      write("a.tar",
            tar_of({{"a.jpg", jpeg}, {"a.cls", "1"}, {"b.png", png_of(picture)}, {"b.cls", "1"}}));
  for (const std::int64_t side : {16, 50, 224, 600}) {
    ImageOptions options{.height = side, .width = side, .crop = CropRange{}, .seed = 3};
    // The same crop of both: sample 0 of two data sets.
    const auto data = open({path}, options);
    const Region region = random_crop({640, 480}, CropRange{}, 3, 0, 0);
    std::vector<std::uint8_t> exact(static_cast<std::size_t>(side * side * 3));
    resample({.pixels = picture, .size = {640, 480}}, view_of_region(region, side, side), exact);
    const auto bytes = pixels(*data, 0);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      ASSERT_NEAR(static_cast<double>(bytes[i]), exact[i], 6) << side << " at " << i;

    resample({.pixels = decoded, .size = {640, 480}}, view_of_region(region, side, side), exact);
    options.source.reduced_decode = false;
    const auto whole = pixels(*open({path}, options), 0);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(exact)), whole)) << side;
    if (side < 200) {
      EXPECT_FALSE(std::ranges::equal(whole, bytes)) << side;
    }
  }
}

}  // namespace
}  // namespace trireme
