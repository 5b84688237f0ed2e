// SPDX-License-Identifier: Apache-2.0
// Weights of models of images to Hugging Face's form and back.
#include <gmock/gmock.h>

#include <functional>

#include "launch/exchange/hf_config.h"
#include "models/resnet/resnet.h"
#include "tests/checkpoint/exchange_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using test::ExchangeTest;
using test::expect_error;
using test::run;
using testing::HasSubstr;

TEST_F(ExchangeTest, AnImportOfAModelOfImagesChecksItself) {
  test::write_text(config_,
                   "model: {family: vit, layers: 1, hidden: 8, heads: 2, patch: 2, image_size: 6, "
                   "channels: 3, classes: 7}\n");
  make_weights();
  run({"export", ours_, "--config", config_, "--out", theirs_, "--expectations"});
  const SafetensorsFile stored(theirs_ + "/trireme_expectations.safetensors");
  EXPECT_EQ(stored.shape("pixel_values"), (Shape{1, 3, 6, 6}));

  EXPECT_THAT(run({"import", theirs_, "--out", back_}), HasSubstr("7 logits as in"));
}

class ResNetExchange : public ExchangeTest {
 protected:
  ResNetExchange() {
    test::write_text(config_,
                     "model: {family: resnet, block: bottleneck, stages: [1, 2], width: 4, "
                     "image_size: 33, classes: 5}\n"
                     "data: {mean: [0.1, 0.2, 0.3], std: [0.5, 0.25, 0.125]}\n");
    make_weights();
  }
  void expect_refused(const std::string& file, const std::string& from, const std::string& to,
                      const std::string& message) {
    const std::string path = theirs_ + "/" + file, before = test::read_text(path);
    ASSERT_NE(before.find(from), std::string::npos) << from << " is not in " << before;
    std::string text = before;
    test::write_text(path, text.replace(text.find(from), from.size(), to));
    expect_error(
        ExitCode::config,
        [&] {
          run({"import", theirs_, "--out", back_, "--force"});
        },
        message);
    test::write_text(path, before);
  }
};

TEST_F(ResNetExchange, RoundTripsThroughHuggingFaceAndIsDetected) {
  export_ours();
  const SafetensorsFile file(theirs_ + "/model.safetensors");
  EXPECT_EQ(file.shape("resnet.embedder.embedder.convolution.weight"), (Shape{4, 3, 7, 7}));
  EXPECT_EQ(file.shape("resnet.encoder.stages.1.layers.0.layer.1.convolution.weight"),
            (Shape{8, 8, 3, 3}));
  EXPECT_EQ(file.shape("resnet.encoder.stages.1.layers.0.shortcut.convolution.weight"),
            (Shape{32, 16, 1, 1}));
  EXPECT_EQ(file.shape("resnet.encoder.stages.1.layers.1.layer.2.normalization.running_var"),
            (Shape{32}));
  EXPECT_EQ(file.shape("classifier.1.weight"), (Shape{5, 32}));
  // 12 units, each with filters, four values per channel and a counter.
  EXPECT_EQ(file.names().size(), 12U * 6 + 2);
  const std::string counter = "resnet.embedder.embedder.normalization.num_batches_tracked";
  EXPECT_EQ(file.dtype(counter), DType::i64);
  EXPECT_EQ(file.shape(counter), Shape{});

  run({"import", theirs_, "--out", directory_.file("run")});

  const auto back = read_all(directory_.file("run/weights.safetensors"));
  ASSERT_EQ(back.size(), weights_.size());
  for (const WholeTensor& tensor : weights_)
    EXPECT_EQ(back.at(tensor.name), tensor.values) << tensor.name;
  Config expected = load_config(config_, {}),
         config = load_config(directory_.file("run/config.yaml"), {});
  expected.model.as<ResNetOptions>().image_width = config.model.as<ResNetOptions>().image_width;
  EXPECT_EQ(config.model.as<ResNetOptions>(), expected.model.as<ResNetOptions>());
  EXPECT_EQ(config.data.mean, expected.data.mean);
  EXPECT_EQ(config.data.std, expected.data.std);
}

TEST_F(ResNetExchange, CountersAreTheStepOrTheImportedValue) {
  const auto count = [&] {
    std::int64_t batches = -1;
    SafetensorsFile(theirs_ + "/model.safetensors")
        .read("resnet.embedder.embedder.normalization.num_batches_tracked", &batches,
              sizeof(batches));
    return batches;
  };
  save_weights(ours_, weights_, {{"step", "42"}});
  export_ours();
  EXPECT_EQ(count(), 42);
  import_hf(theirs_);
  run({"export", back_, "--config", config_, "--out", theirs_, "--force"});
  EXPECT_EQ(count(), 42);
}

TEST_F(ResNetExchange, NamesMissingExtraAndMisshapenTensors) {
  export_ours();
  const std::string variance = "resnet.encoder.stages.0.layers.0.layer.0.normalization.running_var";
  const auto refuses = [&](const std::function<void(std::vector<WholeTensor>&)>& change,
                           const std::string& message) {
    const SafetensorsFile file(theirs_ + "/model.safetensors");
    const WeightFiles files(theirs_);
    std::vector<WholeTensor> tensors;
    for (const std::string& name : file.names()) {
      if (file.dtype(name) == DType::f32)
        tensors.push_back({name, file.shape(name), files.read(name)});
    }
    change(tensors);
    const std::string other = directory_.file("other.safetensors");
    save_weights(other, tensors, {});
    expect_error(
        ExitCode::checkpoint, [&] { import_hf(other); }, message);
    EXPECT_FALSE(fs::exists(back_));
  };
  const auto named = [&](std::vector<WholeTensor>& tensors) {
    return std::ranges::find(tensors, variance, &WholeTensor::name);
  };

  refuses([&](auto& tensors) { tensors.erase(named(tensors)); },
          "has no tensor " + variance + " (4)");
  refuses(
      [&](auto& tensors) {
        tensors.push_back({"resnet.oars", {2}, {1, 2}});
      },
      "holds tensor resnet.oars");
  refuses(
      [&](auto& tensors) {
        *named(tensors) = {variance, {2, 2}, {1, 2, 3, 4}};
      },
      variance + " is (2, 2), not (4)");
  refuses(
      [&](auto& tensors) {
        tensors.push_back(
            {"resnet.embedder.embedder.normalization.num_batches_tracked", {2}, {1, 2}});
      },
      "num_batches_tracked is f32 (2), not a count of i64 ()");
}

TEST_F(ResNetExchange, RefusesUnsupportedSettingsOfTheFiles) {
  export_ours();
  const auto config = [&](const auto&... texts) { expect_refused("config.json", texts...); };
  config("\"downsample_in_bottleneck\": false", "\"downsample_in_bottleneck\": true",
         "downsample_in_bottleneck is true");
  config("    32\n", "    48\n", "hidden_sizes is [16,48]");
  config("\"relu\"", "\"gelu\"", "hidden_act is \"gelu\", our ResNet needs \"relu\"");
  config("    2\n", "    -2\n", "depths is [1,-2], not a list of sizes");
  config("\"embedding_size\": 4", "\"embedding_size\": 1e99", "embedding_size is");
  config("\"bottleneck\"", "\"shallow\"", "layer_type is \"shallow\"");
  const auto pictures = [&](const auto&... texts) {
    expect_refused("preprocessor_config.json", texts...);
  };
  pictures("\"rescale_factor\": 0.00392", "\"rescale_factor\": 0.5",
           "pixels are not divided by 255");
  pictures("[0.1, 0.2, 0.3]", "[0.1, 0.2]", "image_mean is [0.1,0.2], not 3 numbers");
  pictures("[0.5, 0.25, 0.125]", "[0.5, 0, 0.125]", "image_std has 0");
}

TEST(Preprocessor, HasTheScalingOfFilesAndTheResizingOfEvaluation) {
  ModelTraits traits;
  traits.channels = 2;
  traits.image_size = traits.image_width = 384;
  DataConfig pictures, files;
  pictures.images = {"pictures"};
  files.files = {"a.h5"};
  files.scaling = Scaling::mean_std;
  files.mean = {200, 300};
  files.std = {8, 0.5};

  const std::string of_files = preprocessor_text(traits, files);
  EXPECT_THAT(preprocessor_text(traits, pictures), HasSubstr("\"shortest_edge\": 439"));
  EXPECT_THAT(of_files, HasSubstr("\"image_mean\": [200, 300],\n  \"image_std\": [8, 0.5]"));
  for (const char* const step : {"resize", "center_crop", "rescale"})
    EXPECT_THAT(of_files, HasSubstr(fmt::format("\"do_{}\": false", step)));
}

TEST_F(ResNetExchange, ScalingSurvivesAnExportAndAnImport) {
  std::string config = test::read_text(config_);
  config.replace(config.find("data: {mean: [0.1, 0.2, 0.3]"), 28,
                 "data: {files: [a.h5], scaling: mean_std, mean: [200, 300, 0.25]");
  test::write_text(config_, config);
  export_ours();
  const std::string path = "/preprocessor_config.json", said = test::read_text(theirs_ + path);
  ASSERT_THAT(said, HasSubstr("\"do_rescale\": false"));

  EXPECT_THAT(
      run({"import", theirs_, "--out", directory_.file("run")}),
      HasSubstr("data: {scaling: mean_std, mean: [200, 300, 0.25], std: [0.5, 0.25, 0.125]}"));
  run({"export", directory_.file("run"), "--out", directory_.file("again")});

  EXPECT_EQ(test::read_text(directory_.file("again") + path), said);
}

TEST_F(ResNetExchange, AnImportChecksItselfInEvaluation) {
  run({"export", ours_, "--config", config_, "--out", theirs_, "--expectations"});

  EXPECT_THAT(run({"import", theirs_, "--out", back_}), HasSubstr("5 logits as in"));
}

}  // namespace
}  // namespace trireme
