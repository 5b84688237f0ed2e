// SPDX-License-Identifier: Apache-2.0
// Runs on images of many sizes in archives and in class folders.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/data/make_images.h"
#include "tests/data/make_tar.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ImagesTest : public RunTest {
 protected:
  // The same 36 images of 3 classes, each with its own colour, in 2 archives and in folders.
  void write_images() const {
    std::vector<TarEntry> halves[2];
    for (int i = 0; i < 36; ++i) {
      const int label = i % 3;
      Pixels image = pattern(30 + i, 70 - i, 3, i);
      for (std::size_t at = static_cast<std::size_t>(label); at < image.data.size(); at += 3)
        image.data[at] = 255;
      const bool png = i % 9 == 4;
      const std::string bytes = png ? png_of(image) : jpeg_of(image, {2, 2, i % 4 == 0}),
                        name = fmt::format("{:03}.{}", i, png ? "png" : "jpg");
      auto& entries = halves[i / 18];
      entries.push_back({name, bytes});
      entries.push_back({fmt::format("{:03}.cls", i), std::to_string(label)});
      const std::string folder = fmt::format("{}/folders/class_{}", directory(), label);
      std::filesystem::create_directories(folder);
      write_file(folder + "/" + name, bytes);
    }
    std::filesystem::create_directories(directory() + "/archives");
    for (int half = 0; half < 2; ++half)
      write_file(fmt::format("{}/archives/{}.tar", directory(), half), tar_of(halves[half]));
    write_file(directory() + "/images.yaml", R"(
model: {family: resnet, stem: small, stages: [1, 1], width: 8, image_size: 16, classes: 3}
data: {flip: true}
train: {global_batch: 8, micro_batch: 2, log_every: 1}
optimizer: {name: sgd, learning_rate: 0.05}
lr_schedule: {name: constant}
checkpoint: {every_steps: 2}
reproducibility: layout
)");
  }

  [[nodiscard]] CommandResult run(const std::string& images, const std::string& name, int ranks,
                                  int steps, const std::string& settings = "") const {
    return trireme(fmt::format("train {0}/images.yaml --set run.directory={0}/{1} --set "
                               "data.images={0}/{2} --set train.steps={3} {4}",
                               directory(), name, images, steps, settings),
                   ranks);
  }

  [[nodiscard]] std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    for (const LoggedStep& step : steps_of(name))
      all.push_back(step.loss);
    return all;
  }
};

TEST_F(ImagesTest, BitsAreThoseOfOneRankForEveryReader) {
  write_images();
  for (const char* const images : {"archives", "folders"}) {
    const std::string one = fmt::format("{}_one", images);
    const CommandResult alone = run(images, one, 1, 7);  // one and a half epochs
    ASSERT_EQ(alone.exit_code, 0) << alone.output;
    ASSERT_EQ(losses(one).size(), 7U);
    EXPECT_LT(losses(one).back(), losses(one).front());
    const CommandResult two = run(images, "two", 2, 7, "--set data.workers=3");
    ASSERT_EQ(two.exit_code, 0) << two.output;
    EXPECT_EQ(losses("two"), losses(one)) << images;
    EXPECT_EQ(weights_of("two"), weights_of(one)) << images;
    std::filesystem::remove_all(directory() + "/two");
  }
  // Archives from copies on the host's local disk.
  const std::string stage = fmt::format("--set data.stage={}/stage", directory());
  const CommandResult staged = run("archives", "staged", 2, 7, stage);
  ASSERT_EQ(staged.exit_code, 0) << staged.output;
  EXPECT_THAT(staged.output, HasSubstr("data.stage: 2 file(s)"));
  EXPECT_EQ(weights_of("staged"), weights_of("archives_one"));
  const CommandResult folders = run("folders", "staged", 2, 7, stage);
  EXPECT_EQ(folders.exit_code, 2) << folders.output;
  EXPECT_THAT(folders.output, HasSubstr("class folders are read in place"));
}

TEST_F(ImagesTest, ARunGoesOnInsideAnEpochAndRefusesOtherImages) {
  write_images();
  for (const char* const images : {"archives", "folders"}) {
    const std::string whole = fmt::format("whole_{}", images), parts = fmt::format("{}_2", images);
    ASSERT_EQ(run(images, whole, 1, 7).exit_code, 0);
    ASSERT_EQ(run(images, parts, 1, 3).exit_code, 0);
    ASSERT_TRUE(std::filesystem::exists(directory() + "/" + parts + "/data.index"));
    const CommandResult rest = run(images, parts, 2, 7);
    ASSERT_EQ(rest.exit_code, 0) << rest.output;
    EXPECT_EQ(steps_of(parts).back().step, 7);
    EXPECT_EQ(losses(parts).back(), losses(whole).back());
    EXPECT_EQ(weights_of(parts), weights_of(whole));
  }
  // The same bytes, which only a checksum could prove.
  const std::string archive = directory() + "/archives/1.tar";
  const auto before = std::filesystem::last_write_time(archive);
  std::filesystem::last_write_time(archive, before + std::chrono::seconds(5));
  const CommandResult touched = run("archives", "archives_2", 2, 9);
  EXPECT_EQ(touched.exit_code, 3) << touched.output;
  EXPECT_THAT(touched.output, HasSubstr("1.tar was written to since this run last looked"));
  std::filesystem::remove(directory() + "/folders/class_1/001.jpg");
  const CommandResult other = run("folders", "folders_2", 1, 9);
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("fingerprint"));
}

TEST_F(ImagesTest, EvaluationTakesCentresAndTheClassesOfTraining) {
  write_images();
  const std::string validation =
      fmt::format("--set train.eval_every=3 --set data.validation_images={}/", directory());
  const CommandResult trained = run("folders", "run", 2, 3, validation + "folders");
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const CommandResult evaluated = trireme(fmt::format("eval {}/run", directory()));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("samples   36 of 36"));
  std::filesystem::copy(directory() + "/folders", directory() + "/others",
                        std::filesystem::copy_options::recursive);
  std::filesystem::rename(directory() + "/others/class_0", directory() + "/others/class_9");
  const CommandResult refused = run("folders", "other", 1, 3, validation + "others");
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("class_9"), HasSubstr("class_0")));
}

TEST_F(ImagesTest, RunsOnPackedImagesAreEvaluatedOnFoldersAndTheOtherWay) {
  write_images();
  const CommandResult packed = trireme(
      fmt::format("data pack-images {0}/folders --out {0}/packed --split train --resize 16 --quiet",
                  directory()));
  ASSERT_EQ(packed.exit_code, 0) << packed.output;
  const CommandResult trained = trireme(fmt::format(
      "train {0}/images.yaml --set run.directory={0}/on_packed --set data.path={0}/packed/train "
      "--set train.steps=2 --set data.crop_padding=2",
      directory()));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  ASSERT_EQ(run("archives", "on_archives", 1, 2, "--set data.eval_resize=20").exit_code, 0);
  for (const char* const name : {"on_packed", "on_archives"}) {
    for (const char* const data : {"packed/train", "folders", "archives"}) {
      const CommandResult result =
          trireme(fmt::format("eval {0}/{1} --data {0}/{2}", directory(), name, data));
      EXPECT_EQ(result.exit_code, 0) << result.output;
      EXPECT_THAT(result.output, HasSubstr("samples   36 of 36")) << name << " on " << data;
    }
  }
}

TEST_F(ImagesTest, ADescribedImageConfigTrainsUnchanged) {
  write_images();
  write_file(directory() + "/archives/2.tar", tar_of({{"a.jpg", "no label"}}));
  for (const char* const images : {"archives", "folders"}) {
    const CommandResult described =
        trireme(fmt::format("data inspect --config {}/{}", directory(), images));
    ASSERT_EQ(described.exit_code, 0) << described.output;
    write_file(directory() + "/described.yaml", described.output);
    const CommandResult trained = trireme(
        fmt::format("train {0}/described.yaml --set run.directory={0}/{1}_run --set train.steps=1 "
                    "--set train.global_batch=2 --set train.micro_batch=1",
                    directory(), images));
    EXPECT_EQ(trained.exit_code, 0) << trained.output << described.output;
  }
  const CommandResult shown = trireme(
      fmt::format("data preview {0}/described.yaml --out {0}/preview --samples 3", directory()));
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("sample_000012_label_1.png"));
}

TEST_F(ImagesTest, DamageEndsAllRanksByNameOrIsSkipped) {
  write_images();
  const std::string bad = directory() + "/folders/class_2/035.jpg";
  const std::string bytes = read_file(bad);
  write_file(bad, bytes.substr(0, bytes.size() - 9));
  const CommandResult refused = run("folders", "refused", 2, 5);
  EXPECT_EQ(refused.exit_code, 3) << refused.output;
  EXPECT_THAT(refused.output, AllOf(HasSubstr("035.jpg"), HasSubstr("data.damaged: skip")));
  const CommandResult skipped = run("folders", "skipped", 2, 5, "--set data.damaged=skip");
  EXPECT_EQ(skipped.exit_code, 0) << skipped.output;
  EXPECT_THAT(skipped.output, HasSubstr("samples whose images did not decode"));
  // An archive that ends early is refused before the run exists.
  std::filesystem::resize_file(directory() + "/archives/1.tar", 4000);
  const CommandResult cut = run("archives", "cut", 2, 5);
  EXPECT_EQ(cut.exit_code, 3) << cut.output;
  EXPECT_THAT(cut.output, AllOf(HasSubstr("1.tar"), HasSubstr("truncated")));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/cut/config.yaml"));
}

}  // namespace
}  // namespace trireme::test
