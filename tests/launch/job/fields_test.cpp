// SPDX-License-Identifier: Apache-2.0
// Runs on HDF5 files as other programs write them: 16 channels of float32, one sample per file.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <random>

#include "tests/data/fields/make_fields.h"
#include "tests/launch/fixture/run_fixture.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FieldsTest : public RunTest {
 protected:
  static constexpr hsize_t height = 16, width = 48, channels = 16;

  // `count` files in directory() + "/" + name; the label tells which channels are bright.
  void write_files(const std::string& name, int count, const FieldSpec& storage) const {
    const std::string folder = directory() + "/" + name;
    std::filesystem::create_directories(folder);
    std::mt19937 engine(3);
    std::normal_distribution<double> noise(0, 20);
    for (int i = 0; i < count; ++i) {
      FieldSpec spec = storage;
      spec.extents = {height, width, channels};
      std::vector<double> values(height * width * channels);
      for (std::size_t k = 0; k < values.size(); ++k) {
        const auto channel = static_cast<int>(k % channels);
        values[k] = 1000.0 * channel + noise(engine) + (channel % 3 == i % 3 ? 60 : 0);
      }
      const H5 file = make_hdf5(fmt::format("{}/data-{:03}.h5", folder, i));
      write_field(file, "climate/data", spec, values);
      write_field(file, "climate/label", {.type = H5T_STD_I32LE}, {static_cast<double>(i % 3)});
    }
  }

  // The config that describe prints, as a file.
  [[nodiscard]] std::string described(const std::string& name) const {
    const std::string config = fmt::format("{}/{}.yaml", directory(), name);
    const CommandResult result = run_command(
        fmt::format("{} data inspect {}/{} > {}", TRIREME_BINARY, directory(), name, config));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return config;
  }

  [[nodiscard]] CommandResult run(const std::string& config, const std::string& name, int ranks,
                                  const std::string& settings = "") const {
    return trireme(fmt::format("train {} --set run.directory={}/{} --set model.stages=[1,1] --set "
                               "model.width=8 {}",
                               config, directory(), name, settings),
                   ranks);
  }
};

const FieldSpec plain{};
const FieldSpec packed{.chunk = {8, 24, 16}, .storage = deflated(1)};

TEST_F(FieldsTest, ADescribedConfigTrainsUnchanged) {
  write_files("deflated", 40, packed);
  const std::string config = described("deflated");
  const std::string text = read_file(config);
  EXPECT_THAT(text, AllOf(HasSubstr("climate/data"), HasSubstr("16 x 48 x 16"),
                          HasSubstr("shuffle+deflate"), HasSubstr("labels 0 to 2")));

  const CommandResult trained = trireme(
      fmt::format("train {} --set run.directory={}/run --set train.steps=12", config, directory()),
      1);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto steps = steps_of("run");
  ASSERT_EQ(steps.size(), 12U);
  EXPECT_LT(steps.back().loss, 0.8 * steps.front().loss) << "labels follow from the data";
}

TEST_F(FieldsTest, BitsAreThoseOfOneRankForEveryStorage) {
  write_files("plain", 24, plain);
  write_files("packed", 24, packed);
  const std::string config = described("plain");
  const std::string layout =
      "--set reproducibility=layout --set train.steps=4 --set train.global_batch=8 --set "
      "train.micro_batch=2 --set data.crop_padding=2 --set data.flip=true";
  const auto losses = [&](const std::string& name) {
    std::vector<double> all;
    for (const LoggedStep& step : steps_of(name))
      all.push_back(step.loss);
    return all;
  };
  const CommandResult one = run(config, "one", 1, layout);
  ASSERT_EQ(one.exit_code, 0) << one.output;
  ASSERT_EQ(losses("one").size(), 4U);

  const std::string other = fmt::format("--set data.files={}/packed", directory());
  const std::string staged = fmt::format("--set data.stage={}/stage", directory());
  for (const auto& [name, ranks, more] :
       {std::tuple{"two", 2, ""},
        {"workers", 1, "--set data.workers=3 --set data.prefetch=1"},
        {"pipeline", 2, "--set parallel.pipeline=2"},
        {"packed_two", 2, other.c_str()},
        {"staged_two", 2, staged.c_str()},
        {"staged_again", 1, staged.c_str()}}) {
    const CommandResult result = run(config, name, ranks, layout + " " + more);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(losses(name), losses("one")) << name;
    EXPECT_EQ(weights_of(name), weights_of("one")) << name;
  }
}

TEST_F(FieldsTest, ARunGoesOnToTheBitsOfOneThatWasNotInterruptedAndRefusesOtherData) {
  write_files("files", 24, packed);
  const std::string config = described("files");
  const std::string settings =
      "--set train.global_batch=8 --set train.micro_batch=4 --set checkpoint.every_steps=3 --set "
      "lr_schedule.name=constant --set train.steps=";
  ASSERT_EQ(run(config, "whole", 1, settings + "8").exit_code, 0);
  ASSERT_EQ(run(config, "parts", 1, settings + "4").exit_code, 0);
  ASSERT_TRUE(std::filesystem::exists(directory() + "/parts/data.index"));

  // The same bytes, which only a complete read could prove.
  const std::string file = directory() + "/files/data-001.h5";
  const auto before = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now());
  const CommandResult touched = run(config, "parts", 2, settings + "8");
  EXPECT_EQ(touched.exit_code, 3) << touched.output;
  EXPECT_THAT(touched.output,
              AllOf(HasSubstr("data-001.h5 was written to since this run last looked"),
                    HasSubstr("data*.index")));
  std::filesystem::last_write_time(file, before);
  const CommandResult rest = run(config, "parts", 1, settings + "8");
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  EXPECT_THAT(rest.output, HasSubstr("data-001.h5 was moved, restored or written to"));
  EXPECT_EQ(steps_of("parts").back().step, 8);
  EXPECT_EQ(steps_of("parts").back().loss, steps_of("whole").back().loss);
  EXPECT_EQ(weights_of("parts"), weights_of("whole"));

  {
    const H5 file = change_hdf5(directory() + "/files/data-003.h5");
    write_field(file, "more", {.extents = {4}}, {1, 2, 3, 4});
  }
  const CommandResult other = run(config, "parts", 1, settings + "10");
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("fingerprint"));
}

TEST_F(FieldsTest, StatisticsScaleARunAndEvalReadsItsValidationFiles) {
  write_files("train", 24, plain);
  write_files("held_back", 8, packed);
  const std::string config = described("train"), numbers = directory() + "/numbers.json";
  const CommandResult counted =
      trireme(fmt::format("data inspect --statistics {} --quiet --out {}", config, numbers));
  ASSERT_EQ(counted.exit_code, 0) << counted.output;
  EXPECT_THAT(read_file(numbers), HasSubstr("\"not_finite\": 0"));

  const CommandResult trained =
      run(config, "run", 2,
          fmt::format("--set train.steps=3 --set train.global_batch=8 --set data.mean=[] --set "
                      "data.std=[] --set data.statistics={} --set data.validation_fraction=0 --set "
                      "data.validation_files={}/held_back",
                      numbers, directory()));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const CommandResult evaluated = trireme(fmt::format("eval {}/run", directory()));
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, AllOf(HasSubstr("samples   8 of 8"), HasSubstr("held_back")));

  const CommandResult shown =
      trireme(fmt::format("data preview {} --samples 2 --out {}/pictures", config, directory()));
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("sample_000000_label_"));
}

TEST_F(FieldsTest, InspectTakesFilesOrAConfigAndRefusesMissingFields) {
  write_files("files", 8, plain);
  const std::string config = described("files");
  const CommandResult files = trireme(fmt::format("data inspect {}/files", directory()));
  const CommandResult named = trireme("data inspect " + config);
  EXPECT_EQ(named.exit_code, 0) << named.output;
  EXPECT_EQ(named.output, files.output);

  const std::pair<std::string, std::string> cases[] = {
      {"--preview 2", "trireme data preview CONFIG"},
      {"--label txt", "--label: is for images"},
      {"--set data.window=1", "--set and --source: are for a config"},
      {"--verify", "HDF5 files in place, which have no checksums"}};
  for (const auto& [options, problem] : cases) {
    const CommandResult refused =
        trireme(fmt::format("data inspect {}/files {}", directory(), options));
    EXPECT_EQ(refused.exit_code, options == "--verify" ? 3 : 2);
    EXPECT_THAT(refused.output, HasSubstr(problem));
  }
  const CommandResult none = trireme("data inspect");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("path is required"));
}

TEST_F(FieldsTest, WeightsMultiplyTheLossesOfTheirSamplesWithTheSameBitsOnAnyRanks) {
  {
    const H5 file = make_hdf5(directory() + "/a.h5");
    std::vector<double> values(16 * 8 * 8), labels(16), ones(16, 1), weights(16), halves(16, 0.5);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i * i % 31) / 31;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<double>(i % 2);
      weights[i] = static_cast<double>(i % 3);
    }
    write_field(file, "u", {.extents = {16, 8, 8}}, values);
    write_field(file, "y", {.extents = {16}, .type = H5T_STD_I32LE}, labels);
    write_field(file, "ones", {.extents = {16}}, ones);
    write_field(file, "weights", {.extents = {16}}, weights);
    write_field(file, "halves", {.extents = {16}}, halves);
  }
  const auto train = [&](const std::string& name, int ranks, const std::string& weight) {
    const CommandResult result = trireme(
        fmt::format("train {0}/resnet.yaml --set run.directory={1}/{2} --set data.path= --set "
                    "data.validation_path= --set data.mean=[] --set data.std=[] --set "
                    "data.files={1}/a.h5 --set data.validation_files={1}/a.h5 --set data.inputs=u "
                    "--set data.target=y --set data.samples=axis --set data.axes=NHW --set "
                    "model.image_size=8 --set train.steps=3 --set reproducibility=layout {3}",
                    data_directory(), directory(), name,
                    weight.empty() ? "" : "--set data.weight=" + weight),
        ranks);
    ASSERT_EQ(result.exit_code, 0) << result.output;
  };
  const auto first_loss = [&](const std::string& name) { return steps_of(name).front().loss; };
  train("none", 1, "");
  train("ones", 1, "ones");
  train("halves", 1, "halves");
  train("one", 1, "weights");
  train("two", 2, "weights");

  EXPECT_EQ(weights_of("ones"), weights_of("none"));
  EXPECT_EQ(first_loss("halves"), 0.5 * first_loss("none"))
      << "divided by the samples, not by weights";
  EXPECT_NE(weights_of("one"), weights_of("none"));
  EXPECT_EQ(weights_of("two"), weights_of("one"));
  EXPECT_EQ(validation_loss_of("two"), validation_loss_of("one"));
}

TEST_F(FieldsTest, TextLabelsAndAKeyForTestKeepTheirMeaningFromTrainingToEval) {
  for (int i = 0; i < 12; ++i) {
    const H5 file = make_hdf5(fmt::format("{}/{}_{:02}.h5", directory(), i < 9 ? "old" : "new", i));
    write_field(file, "u", {.extents = {8, 8}}, counting(64, 10 * (i % 3)));
    // The test data lacks some of the classes.
    write_texts(file, "weather",
                {i % 3 == 0            ? "calm"
                 : i % 3 == 1 && i < 9 ? "rain"
                                       : "storm"},
                0, true);
  }
  const std::string config = fmt::format(
      "--set data.path= --set data.validation_path= --set data.mean=[] --set data.std=[] --set "
      "data.files={0}/*_*.h5 --set data.inputs=u --set data.target=@weather --set data.axes=HW "
      "--set data.split_key=name --set data.validation_values=[old_00.h5,old_01.h5] --set "
      "data.test_values=new_* --set model.image_size=8 --set train.steps=2 --set "
      "train.global_batch=4 --set train.micro_batch=2",
      directory());
  const CommandResult trained =
      trireme(fmt::format("train {}/resnet.yaml --set run.directory={}/run {}", data_directory(),
                          directory(), config),
              2);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(read_file(directory() + "/run/data.json"), HasSubstr("storm"));

  const std::string eval = fmt::format("eval {}/run", directory());
  const CommandResult validated = trireme(eval);
  EXPECT_THAT(validated.output, HasSubstr("samples   2 of 2"));
  const CommandResult tested = trireme(eval + " --split test", 2);
  EXPECT_EQ(tested.exit_code, 0) << tested.output;
  EXPECT_THAT(tested.output, HasSubstr("samples   3 of 3"));
  // The same samples under another name; its own classes would be only two.
  const CommandResult named = trireme(fmt::format("{} --data \"{}/new_*.h5\"", eval, directory()));
  EXPECT_EQ(named.exit_code, 0) << named.output;
  const auto loss = [](const std::string& output) {
    return output.substr(output.find("loss "), 20);
  };
  EXPECT_EQ(loss(named.output), loss(tested.output));

  const CommandResult both = trireme(eval + " --split test --data somewhere");
  EXPECT_EQ(both.exit_code, 2) << both.output;
  const CommandResult none = trireme(eval + " --split test --set data.test_values=[]");
  EXPECT_EQ(none.exit_code, 2) << none.output;
  EXPECT_THAT(none.output, HasSubstr("names no test set"));
}

TEST_F(FieldsTest, MixWithOtherFilesAndPackedImages) {
  // The content of the other tests' packed images: 12 x 12, grey, three classes.
  for (const char* const name : {"rows", "columns"}) {
    const H5 file = make_hdf5(fmt::format("{}/{}.h5", directory(), name));
    std::vector<double> values = counting(24 * 12 * 12);
    write_field(file, "u", {.extents = {24, 12, 12}}, values);
    std::vector<double> labels(24);
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<double>(i % 3);
    write_field(file, "y", {.extents = {24}, .type = H5T_STD_I32LE}, labels);
  }
  const std::string list = fmt::format(
      "--set data.path= --set data.mean=[] --set data.std=[] --set data.validation_path= --set "
      "\"data.sources=[{{name: rows, files: [{0}/rows.h5], inputs: [u], target: y, samples: axis, "
      "axes: NHW, validation_fraction: 0.25, scaling: mean_std, mean: [1700], std: [1000]}}, "
      "{{name: turned, files: [{0}/columns.h5], inputs: [u], target: y, samples: axis, axes: NWH, "
      "scaling: mean_std, mean: [1700], std: [900]}}, "
      "{{name: photos, path: {1}/images/train, validation_path: {1}/images/validation, "
      "mean: [0.5], std: [0.25]}}]\" --set reproducibility=layout --set checkpoint.every_steps=3",
      directory(), data_directory());
  const auto train = [&](const std::string& name, int ranks, const std::string& more) {
    return trireme(fmt::format("train {}/resnet.yaml --set run.directory={}/{} {} {}",
                               data_directory(), directory(), name, list, more),
                   ranks);
  };
  for (const auto& [name, ranks, more] : {std::tuple{"one", 1, ""},
                                          {"two", 2, ""},
                                          {"parts", 1, "--set train.steps=3"},
                                          {"parts", 2, "--set train.steps=5"}}) {
    const CommandResult result =
        train(name, ranks, fmt::format("--set lr_schedule.name=constant {}", more));
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("turned ("));
  }
  EXPECT_EQ(weights_of("two"), weights_of("one"));
  EXPECT_EQ(weights_of("parts"), weights_of("one"));
  EXPECT_TRUE(std::filesystem::exists(directory() + "/one/data.0.index"));
  EXPECT_TRUE(std::filesystem::exists(directory() + "/one/data.1.index"));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/one/data.2.index"));
  EXPECT_THAT(read_file(directory() + "/one/console.log"),
              AllOf(HasSubstr("validation of rows: loss "), HasSubstr("validation of photos: ")));
  const CommandResult evaluated = trireme(fmt::format("eval {}/one", directory()), 2);
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, AllOf(HasSubstr("samples   30 of 30"), HasSubstr("rows: loss "),
                                      HasSubstr("photos: loss "), HasSubstr("accuracy")));

  const CommandResult shape = train("none", 1, "--set model.image_size=10");
  EXPECT_EQ(shape.exit_code, 3) << shape.output;
  EXPECT_THAT(shape.output, HasSubstr("samples are 12 x 12"));
  const CommandResult scaled = train("none", 1, "--set data.mean=[0.5]");
  EXPECT_EQ(scaled.exit_code, 2) << scaled.output;
  EXPECT_THAT(scaled.output, HasSubstr("write mean and std in each source"));
  const CommandResult data = trireme(
      fmt::format("eval {}/one --data {}/images/validation", directory(), data_directory()));
  EXPECT_EQ(data.exit_code, 2) << data.output;
}

TEST_F(FieldsTest, UnreadableDataIsRefusedByNameWithCode3) {
  write_files("files", 8, plain);
  const std::string config = described("files");
  write_file(directory() + "/files/data-004.h5", "cut");
  const CommandResult cut =
      run(config, "cut", 2, "--set train.global_batch=4 --set train.micro_batch=1");
  EXPECT_EQ(cut.exit_code, 3) << cut.output;
  EXPECT_THAT(cut.output, HasSubstr("data-004.h5"));
  EXPECT_FALSE(std::filesystem::exists(directory() + "/cut/config.yaml"));

  const CommandResult undescribed =
      trireme(fmt::format("data inspect --config {}/files/data-004.h5", directory()));
  EXPECT_EQ(undescribed.exit_code, 3) << undescribed.output;

  const CommandResult both = run(config, "both", 1, "--set data.path=somewhere");
  EXPECT_EQ(both.exit_code, 2) << both.output;
  EXPECT_THAT(both.output, HasSubstr("names packed shards, but data.files"));
  const CommandResult axes = run(config, "axes", 1, "--set data.axes=HXC");
  EXPECT_EQ(axes.exit_code, 2) << axes.output;
  EXPECT_THAT(axes.output, HasSubstr("not an order of axes"));
}

}  // namespace
}  // namespace trireme::test
