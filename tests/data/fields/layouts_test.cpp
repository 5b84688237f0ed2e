// SPDX-License-Identifier: Apache-2.0
// What `trireme data inspect --config` makes of files as other programs lay them out: each config
// that it prints is one that the reader takes and whose samples can be read, and some are trained.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <limits>

#include "data/fields/describe.h"
#include "launch/engine/data_sets.h"
#include "models/config.h"
#include "tests/data/fields/volume_layouts.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {
namespace {

double with_gaps(std::size_t i) {
  return i % 5 == 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(i % 3);
}

std::vector<Layout> images() {
  return {
      {"Keras: x_train, y_train, x_test, y_test",
       {{image("x_train", {30, 12, 12, 3}),
         {"y_train", {30, 1}, Type::i8, classes(5)},
         image("x_test", {9, 12, 12, 3}),
         {"y_test", {9, 1}, Type::i8, classes(5)}}},
       "axis x_train y_train NHWC",
       "validation_inputs: [\"x_test\"]",
       true},
      {"Coursera: train_set_x",
       {{{"list_classes", {}, Type::text, noise, {"cat", "not"}},
         image("train_set_x", {24, 16, 16, 3}),
         {"train_set_y", {24}, Type::i8, classes(2)}}},
       "axis train_set_x train_set_y NHWC"},
      {"PatchCamelyon: y with four axes",
       {{image("x", {24, 16, 16, 3}), {"y", {24, 1, 1, 1}, Type::u1, classes(2)}}},
       "axis x y NHWC"},
      {"Galaxy10: ans among positions",
       {{{"ans", {24}, Type::u1, classes(10)},
         {"dec", {24}, Type::f8},
         image("images", {24, 16, 16, 3}),
         {"ra", {24}, Type::f8}}},
       "axis images ans NHWC",
       "classes: 10}"},
      {"So2Sat: one-hot labels of two sensors",
       {{{"label", {24, 17}, Type::f8, one_hot(17)},
         {"sen1", {24, 16, 16, 8}},
         {"sen2", {24, 16, 16, 10}}}},
       "axis sen2 label NHWC",
       "classes: 17}"},
      {"channels first",
       {{image("data", {24, 3, 16, 16}), {"label", {24}, Type::i8, classes(3)}}},
       "axis data label NCHW"},
  };
}

std::vector<Layout> masks() {
  return {
      {"images and masks",
       {{image("images", {24, 16, 20, 3}),
         image("other", {3}),
         {"masks", {24, 16, 20}, Type::u1, classes(3)}}},
       "axis images masks NHWC",
       "classes: 3,"},
      {"grey images and masks with a channel",
       {{image("images", {30, 16, 20, 1}), {"masks", {30, 16, 20, 1}, Type::u1, classes(2)}}},
       "axis images masks NHWC",
       "classes: 2,"},
      {"masks of 0 and 255",
       {{image("images", {24, 16, 20, 3}), {"masks", {24, 16, 20}, Type::u1, classes(2, 0, 255)}}},
       "",
       "scale_factor"},
      {"masks of 0 and 255 with a scale factor",
       {{image("images", {24, 16, 20, 3}),
         {"masks", {24, 16, 20}, Type::u1, classes(2, 0, 255)},
         {"masks@scale_factor", {}, Type::f8, [](std::size_t) { return 1.0 / 255; }}}},
       "axis images masks NHWC",
       "classes: 2,",
       true},
      {"masks with a border of 255",
       {{image("images", {24, 16, 20, 3}),
         {"masks",
          {24, 16, 20},
          Type::u1,
          [](std::size_t i) { return i % 9 == 0 ? 255 : i % 4; }}}},
       "axis images masks NHWC",
       "ignored_class: 255"},
  };
}

std::vector<Layout> labels() {
  return {
      {"MATLAB: reversed axes, classes from 1 in doubles",
       {{image("X", {24, 3, 16, 12}),
         text("X@MATLAB_class", {"uint8"}),
         {"y", {1, 24}, Type::f8, classes(4, 1)},
         text("y@MATLAB_class", {"double"})}},
       "axis X y NCWH"},
      {"MATLAB: a table",
       {{{"X", {7, 40}, Type::f8},
         text("X@MATLAB_class", {"double"}),
         {"y", {1, 40}, Type::f8, classes(3, 1)},
         text("y@MATLAB_class", {"double"})}},
       "axis X y CN",
       "family: mlp",
       true},
      {"PyTables: arrays with reserved attributes",
       {{image("images", {24, 12, 10, 3}),
         text("images@CLASS", {"EARRAY"}),
         {"images@TITLE", {}, Type::nothing},
         {"labels", {24}, Type::i8, classes(4)},
         text("labels@CLASS", {"EARRAY"}),
         {"mean", {12, 10, 3}, Type::f8}}},
       "axis images labels NHWC"},
      {"one class",
       {{image("images", {24, 12, 10, 3}), {"labels", {24}, Type::i8, classes(1, 3)}}},
       "",
       "label 3"},
      {"splits as groups",
       {{image("train/x", {16, 12, 10, 3}),
         {"train/y", {16}, Type::i8, classes(4)},
         image("val/x", {8, 12, 10, 3}),
         {"val/y", {8}, Type::i8, classes(4)}}},
       "axis train/x train/y NHWC",
       "validation_inputs: [\"val/x\"]"},
      {"steps in numbered groups",
       groups(
           5,
           [](const std::string& at, hsize_t i) -> std::vector<Stored> {
             return {image(at + "/obs/image", {10 + i, 12, 10, 3}),
                     {at + "/dones", {10 + i}, Type::i8, classes(4)}};
           },
           "data/demo_"),
       "group obs/image dones NHWC", "groups: \"data/demo_*\""},
      {"a class as an attribute",
       files(3,
             [](hsize_t i) -> std::vector<Stored> {
               return {{"scan", {24, 20}}, text("@CLASS", {i == 0 ? "cat" : "dog"})};
             }),
       "file scan @CLASS HW", "classes: 2}"},
      {"text labels",
       {{image("images", {6, 12, 10, 3}),
         text("label", {"cat", "dog", "cat", "dog", "emu", "emu"})}},
       "axis images label NHWC",
       "classes: 3}"},
      {"a group per image, named by number",
       groups(
           8,
           [](const std::string& at, hsize_t i) -> std::vector<Stored> {
             return {image(at + "/image", {12, 10, 3}),
                     {at + "@label", {}, Type::i4, [=](std::size_t) { return i % 2; }}};
           },
           ""),
       "group image @label HWC"},
      {"class labels without names, and numbers of samples",
       {{{"id", {24}, Type::i8, [](std::size_t i) { return i; }},
         image("pictures", {24, 12, 10, 3}),
         {"what", {24}, Type::i8, classes(3)}}},
       "axis pictures what NHWC"},
      {"time stamps are no classes",
       {{image("frames", {24, 12, 10, 3}), {"target", {24}, Type::i8, classes(3, 2147483000)}}},
       "",
       "2147483"},
  };
}

std::vector<Layout> fields() {
  return {
      {"Darcy flow: maps of values",
       {{{"x", {24, 32, 32}}, {"y", {24, 32, 32}, Type::f4}}},
       "axis x y NHW",
       "values: 1",
       true},
      {"neural operators in MATLAB's files: coeff and sol",
       {{{"coeff", {24, 32, 28}, Type::f8},
         text("coeff@MATLAB_class", {"double"}),
         {"sol", {24, 32, 28}, Type::f8},
         text("sol@MATLAB_class", {"double"})}},
       "axis coeff sol NWH",
       "values: 1"},
      {"denoising: several channels",
       {{{"clean", {24, 3, 32, 32}}, {"noisy", {24, 3, 32, 32}}}},
       "axis noisy clean NCHW",
       "values: 3"},
      {"regression of images",
       {{{"images", {24, 16, 16, 1}}, {"params", {24, 6}, Type::f8}}},
       "axis images params NHWC",
       "head: values, targets: 6"},
      {"DeepCAM",
       files(3,
             [](hsize_t) -> std::vector<Stored> {
               return {{"climate/data", {32, 48, 16}},
                       {"climate/labels_0", {32, 48}, Type::i8, classes(3)}};
             }),
       "file climate/data climate/labels_0 HWC", "classes: 3,"},
  };
}

std::vector<Layout> earth() {
  return {
      {"ERA5: packed numbers and coordinates, nothing to predict",
       {{{"latitude", {16}},
         text("latitude@units", {"degrees_north"}),
         text("latitude@axis", {"Y"}),
         {"longitude", {20}},
         text("longitude@axis", {"X"}),
         {"time", {24}, Type::i4},
         text("time@units", {"hours since 1900-01-01"}),
         {"t2m", {24, 16, 20}, Type::i2, bytes},
         {"t2m@scale_factor", {}, Type::f8, [](std::size_t) { return 0.01; }}}},
       "",
       "t2m"},
      {"CMIP: bounds of coordinates are no samples",
       {{{"lat", {16}, Type::f8},
         text("lat@bounds", {"lat_bnds"}),
         text("lat@axis", {"Y"}),
         {"lat_bnds", {16, 2}, Type::f8},
         {"time", {24}, Type::f8},
         text("time@units", {"days since 1850-01-01"}),
         text("time@bounds", {"time_bnds"}),
         {"time_bnds", {24, 2}, Type::f8},
         {"tas", {24, 16, 20}}}},
       "",
       "tas"},
      {"a climate field and a class per step",
       {{{"tas", {24, 16, 20}}, {"storm_class", {24}, Type::i4, classes(3)}}},
       "axis tas storm_class NHW"},
      {"land cover with a fill value",
       {{{"bands", {24, 16, 20, 6}},
         {"cover_class",
          {24, 16, 20},
          Type::u1,
          [](std::size_t i) { return i % 5 == 0 ? 255 : i % 3; }},
         {"cover_class@_FillValue", {}, Type::u1, [](std::size_t) { return 255; }}}},
       "axis bands cover_class NHWC",
       "ignored_class: 255",
       true},
      {"maps in floats with NaN",
       {{{"bands", {24, 16, 20, 6}}, {"mask", {24, 16, 20}, Type::f4, with_gaps}}},
       "axis bands mask NHWC",
       "not_finite: zero",
       true},
      {"labels with a fill value",
       {{{"bands", {24, 16, 20, 6}},
         {"label", {24}, Type::i4, classes(3, -1)},
         {"label@_FillValue", {}, Type::i4, [](std::size_t) { return -1; }}}},
       "",
       "not missing"},
      {"labels with NaN",
       {{{"x", {24, 16, 20, 6}}, {"y", {24}, Type::f4, with_gaps}}},
       "axis x y NHWC",
       "not_finite: zero"},
  };
}

std::vector<Layout> tables() {
  return {
      {"a table with classes",
       {{{"X", {60, 9}}, {"y", {60}, Type::i8, classes(3)}}},
       "axis X y NC",
       "family: mlp, length: 1, channels: 9"},
      {"pandas: blocks of a frame",
       {{text("df/axis0", {"a", "b", "c", "kind"}),
         {"df/axis0@TITLE", {}, Type::nothing},
         {"df/axis1", {60}, Type::i8, [](std::size_t i) { return i; }},
         text("df/axis1@CLASS", {"ARRAY"}),
         text("df/block0_items", {"a", "b", "c"}),
         {"df/block0_values", {60, 3}, Type::f8},
         text("df/block1_items", {"kind"}),
         {"df/block1_values", {60, 1}, Type::i8, classes(3)},
         {"df@TITLE", {}, Type::nothing}}},
       "axis df/block0_values df/block1_values NC",
       "family: mlp"},
      {"point clouds: ModelNet40",
       {{{"data", {24, 128, 3}},
         {"label", {24, 1}, Type::u1, classes(10)},
         {"normal", {24, 128, 3}}}},
       "axis data label NWC",
       "length: 128, channels: 3"},
      {"electrocardiograms",
       {{{"tracings", {24, 256, 12}}, {"classes", {24}, Type::i4, classes(2)}}},
       "axis tracings classes NWC",
       "length: 256"},
      {"jets: numbers to predict",
       {{{"jet_target", {24, 4}}, {"particle_features", {24, 30, 3}}}},
       "axis particle_features jet_target NWC",
       "targets: 4"},
      {"robomimic",
       groups(
           4,
           [](const std::string& at, hsize_t i) -> std::vector<Stored> {
             return {{at + "/actions", {10 + i, 7}, Type::f8},
                     image(at + "/obs/image", {10 + i, 12, 12, 3})};
           },
           "data/demo_"),
       "group obs/image actions NHWC", "groups: \"data/demo_*\"", true},
      {"h5py's first lines: one data set",
       {{{"mydataset", {100}, Type::i4}}},
       "",
       "rows and columns"},
      {"weights of a Keras model",
       {{{"model_weights/dense/dense/kernel:0", {40, 30}},
         {"model_weights/dense/dense/bias:0", {30}},
         {"model_weights/dense_1/dense_1/kernel:0", {30, 10}},
         {"model_weights/dense_1/dense_1/bias:0", {10}}}},
       "",
       "nothing looks like"},
      {"a frame in one block",
       {{{"df/block0_values", {60, 4}, Type::f8}}},
       "",
       "nothing looks like"},
  };
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (const auto& some :
       {volumes(), volumes_in_groups(), images(), masks(), labels(), fields(), earth(), tables()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

class Layouts : public testing::TestWithParam<Layout> {
 protected:
  // The names of the layout's files.
  [[nodiscard]] std::vector<std::string> written() const {
    std::vector<std::string> names;
    for (const std::vector<Stored>& contents : GetParam().files) {
      names.push_back(fmt::format("{}/{}.h5", directory_.path(), names.size()));
      write(names.back(), contents);
    }
    return names;
  }

  const TemporaryDirectory directory_;
};

TEST_P(Layouts, AreReadAsTheyAreMeant) {
  const Layout& layout = GetParam();
  const Description found = describe_files({.names = written()});
  if (layout.reading.empty()) {
    EXPECT_THAT(found.problem, testing::HasSubstr(layout.words)) << found.text;
    EXPECT_EQ(found.text.find("\nmodel:"), std::string::npos) << found.text;
    return;
  }
  ASSERT_EQ(found.problem, "") << found.text;
  SCOPED_TRACE(found.text);
  Provenance where;
  const Config config =
      resolve_config(parse_config(found.text, "found.yaml", {}, &where), Environment{}, &where);
  const std::string reading =
      fmt::format("{} {} {} {}", name_of(config.data.samples), fmt::join(config.data.inputs, ","),
                  fmt::join(config.data.target, ","), config.data.axes);
  EXPECT_THAT(reading, testing::StartsWith(layout.reading));
  EXPECT_THAT(found.text, testing::HasSubstr(layout.words));
  const auto data = open_dataset(config, DataPart::training);
  std::vector<std::byte> inputs(data->layout().input_bytes());
  std::vector<std::int32_t> targets(static_cast<std::size_t>(data->layout().targets.count()));
  for (std::int64_t i = 0; i < data->size(); ++i)
    data->read(i, inputs, targets);
  if (!layout.trained) return;
  const std::string path = directory_.path() + "/found.yaml", log = directory_.path() + "/log";
  std::ofstream(path) << found.text;
  const int status = std::system(
      fmt::format("{} train {} --set train.steps=2 --set run.directory={}/run > {} 2>&1",
                  TRIREME_BINARY, path, directory_.path(), log)
          .c_str());
  EXPECT_EQ(status, 0) << std::ifstream(log).rdbuf();
}

INSTANTIATE_TEST_SUITE_P(Of, Layouts, testing::ValuesIn(layouts()), [](const auto& each) {
  std::string name = each.param.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// Both readings of a stack of slices with maps are named.
TEST(LayoutsThatAreAmbiguous, NameTheOtherReadings) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/stack.h5";
  write(path, {{"image", {24, 32, 32}}, {"label", {24, 32, 32}, Type::u1, classes(3)}});
  const Description found = describe_files({.names = {path}});
  EXPECT_THAT(found.text,
              testing::AllOf(testing::HasSubstr("  axes: NHW\n"),
                             testing::HasSubstr("target: label, axes: DHW and samples: file")));
}

}  // namespace
}  // namespace trireme::test
