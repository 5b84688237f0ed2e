// SPDX-License-Identifier: Apache-2.0
// What `trireme data inspect --config` makes of files as other programs lay them out: each config
// that it prints is one that the reader takes and whose samples can be read, and some are trained.
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "data/fields/describe.h"
#include "launch/engine/data_sets.h"
#include "models/config.h"
#include "tests/data/fields/make_fields.h"
#include "tests/support/temporary_directory.h"

namespace trireme::test {
namespace {

using Numbers = std::function<double(std::size_t)>;

double noise(std::size_t i) {
  return static_cast<double>(i * 2654435761U % 1000) / 500.0 - 1;
}
double bytes(std::size_t i) {
  return static_cast<double>(i * 2654435761U % 251);
}
Numbers classes(std::size_t count, double first = 0, double step = 1) {
  return [=](std::size_t i) { return first + step * static_cast<double>(i * 7 / 3 % count); };
}
// Of 0 and one 1 in each row.
Numbers one_hot(std::size_t count) {
  return [=](std::size_t i) { return i / count % count == i % count ? 1.0 : 0.0; };
}

enum class Type { f4, f8, i2, i4, i8, u1, text, nothing };

hid_t stored_as(Type type) {
  switch (type) {
    case Type::f4:
      return H5T_IEEE_F32LE;
    case Type::f8:
      return H5T_IEEE_F64LE;
    case Type::i2:
      return H5T_STD_I16LE;
    case Type::i4:
      return H5T_STD_I32LE;
    case Type::i8:
      return H5T_STD_I64LE;
    default:
      return H5T_STD_U8LE;
  }
}

// A data set, or with "@" an attribute.
struct Stored {
  std::string path;
  std::vector<hsize_t> extents;
  Type type = Type::f4;
  Numbers numbers = noise;
  std::vector<std::string> texts{};
};

Stored image(const std::string& path, std::vector<hsize_t> extents) {
  return {path, std::move(extents), Type::u1, bytes};
}
Stored text(const std::string& path, std::vector<std::string> texts) {
  return {path, {}, Type::text, noise, std::move(texts)};
}

struct Layout {
  std::string name;
  std::vector<std::vector<Stored>> files;
  // "samples inputs target axes" of the config; or "" if none may be printed.
  std::string reading;
  std::string words{};  // in the rest of the text, or in the reason why there is none
  bool trained = false;
};

using Files = std::vector<std::vector<Stored>>;

Files files(int count, const std::function<std::vector<Stored>(hsize_t)>& file) {
  Files all;
  for (int i = 0; i < count; ++i)
    all.push_back(file(static_cast<hsize_t>(i)));
  return all;
}
Files groups(int count,
             const std::function<std::vector<Stored>(const std::string&, hsize_t)>& group,
             const std::string& before = "case_") {
  std::vector<Stored> all;
  for (int i = 0; i < count; ++i) {
    for (Stored& each : group(fmt::format("{}{}", before, i), static_cast<hsize_t>(i)))
      all.push_back(std::move(each));
  }
  return {all};
}

std::vector<Layout> volumes() {
  return {
      {"MONAI: a volume and its label map per file",
       files(3,
             [](hsize_t) -> std::vector<Stored> {
               return {{"image", {20, 24, 32}}, {"label", {20, 24, 32}, Type::u1, classes(3)}};
             }),
       "file image label DHW", "classes: 3,", true},
      {"a cube and its map in one file",
       {{{"raw", {32, 32, 32}}, {"label", {32, 32, 32}, Type::u1, classes(2)}}},
       "file raw label DHW",
       "family: unet, depth: 32"},
      {"cubes of 16",
       {{{"x", {16, 16, 16}}, {"y", {16, 16, 16}, Type::u1, classes(2)}}},
       "file x y DHW",
       "family: unet, depth: 16",
       true},
      {"few volumes along an axis",
       {{{"images", {4, 32, 32, 32}}, {"labels", {4, 32, 32, 32}, Type::u1, classes(4)}}},
       "axis images labels NDHW",
       "depth: 32"},
      {"few volumes with a class each",
       {{{"images", {4, 32, 24, 24}}, {"labels", {4}, Type::i8, classes(2)}}},
       "axis images labels NDHW",
       "classes: 2}"},
      {"BraTS: four sequences",
       files(2,
             [](hsize_t) -> std::vector<Stored> {
               return {{"image", {4, 24, 32, 32}}, {"label", {24, 32, 32}, Type::u1, classes(4)}};
             }),
       "file image label CDHW", "channels: 4, classes: 4,"},
      {"nnU-Net: data and seg, -1 is no class, of different sizes",
       files(3,
             [](hsize_t i) -> std::vector<Stored> {
               return {{"data", {1, 20 + i, 40 + i, 36}},
                       {"seg", {1, 20 + i, 40 + i, 36}, Type::i2, classes(4, -1)}};
             }),
       "file data seg CDHW", "patches: true", true},
      {"left atrium: different sizes, the first channel-less",
       files(3,
             [](hsize_t i) -> std::vector<Stored> {
               return {{"image", {40 + i, 36, 32}},
                       {"label", {40 + i, 36, 32}, Type::u1, classes(2)}};
             }),
       "file image label DHW", "patches: true"},
      {"ACDC: slices of different sizes",
       files(4,
             [](hsize_t i) -> std::vector<Stored> {
               return {{"image", {40, 36 + 2 * i}},
                       {"label", {40, 36 + 2 * i}, Type::u1, classes(4)},
                       {"scribble", {40, 36 + 2 * i}, Type::u1, classes(5)}};
             }),
       "file image label HW", "patches: true"},
      {"a group per volume",
       groups(4,
              [](const std::string& at, hsize_t) -> std::vector<Stored> {
                return {{at + "/image", {20, 24, 24}},
                        {at + "/mask", {20, 24, 24}, Type::u1, classes(2)}};
              }),
       "group image mask DHW", "classes: 2,", true},
      {"a group per volume, of different sizes",
       groups(4,
              [](const std::string& at, hsize_t i) -> std::vector<Stored> {
                return {{at + "/image", {18 + i, 24, 24}},
                        {at + "/mask", {18 + i, 24, 24}, Type::u1, classes(2)}};
              }),
       "group image mask DHW", "patches: true"},
      {"DICOM to HDF5: a series per group, with a diagnosis",
       groups(
           6,
           [](const std::string& at, hsize_t i) -> std::vector<Stored> {
             return {{at + "/pixels", {8, 20, 20}, Type::i2, bytes},
                     text(at + "@Modality", {"CT"}),
                     {at + "@diagnosis_label", {}, Type::i4, [=](std::size_t) { return i % 2; }}};
           },
           "series_"),
       "group pixels @diagnosis_label", "classes: 2}"},
      {"BraTS slices: a mask with a channel per class",
       files(
           3,
           [](hsize_t) -> std::vector<Stored> {
             return {{"image", {24, 24, 4}, Type::f8}, {"mask", {24, 24, 3}, Type::u1, classes(2)}};
           }),
       "file image mask HWC", "values: 3"},
      {"pytorch-3dunet: raw with channels",
       {{{"raw", {2, 24, 32, 40}}, {"label", {24, 32, 40}, Type::i8, classes(3)}}},
       "file raw label CDHW",
       "channels: 2"},
      {"a data set per volume",
       {{{"image_0", {20, 24, 24}},
         {"image_1", {20, 24, 24}},
         {"image_2", {20, 24, 24}},
         {"mask_0", {20, 24, 24}, Type::u1, classes(2)},
         {"mask_1", {20, 24, 24}, Type::u1, classes(2)},
         {"mask_2", {20, 24, 24}, Type::u1, classes(2)}}},
       "",
       "image_0"},
      {"CosmoFlow: cubes of 16",
       {{{"x", {16, 16, 16, 4}, Type::i2, bytes}, {"y", {4}}}},
       "file x y DHWC",
       "family: cosmoflow, size: 16",
       true},
      {"a cube with a class",
       files(3,
             [](hsize_t i) -> std::vector<Stored> {
               return {{"x", {12, 12, 12, 4}},
                       {"label", {}, Type::i8, [=](std::size_t) { return i % 2; }}};
             }),
       "file x label DHWC", "family: resnet"},
      {"cubes along an axis",
       {{{"full", {24, 12, 12, 12, 4}},
         {"unitPar", {24, 3}, Type::f8},
         {"redshift", {}, Type::f8}}},
       "axis full unitPar NDHWC",
       "family: cosmoflow, size: 12"},
      {"hyperspectral: one scene",
       {{{"cube", {40, 36, 60}}, {"gt", {40, 36}, Type::u1, classes(9)}}},
       "file cube gt HWC",
       "channels: 60, classes: 9,"},
  };
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
       {{image("frames", {24, 12, 10, 3}),
         {"target", {24}, Type::i8, [](std::size_t i) { return 2147483000.0 + i % 3; }}}},
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
       {{{"bands", {24, 16, 20, 6}},
         {"mask", {24, 16, 20}, Type::f4, [](std::size_t i) { return i % 5 == 0 ? NAN : i % 3; }}}},
       "axis bands mask NHWC",
       "not_finite: zero",
       true},
      {"labels with a fill value",
       {{{"bands", {24, 16, 20, 6}},
         {"label", {24}, Type::i4, [](std::size_t i) { return i % 3 - 1.0; }},
         {"label@_FillValue", {}, Type::i4, [](std::size_t) { return -1; }}}},
       "",
       "not missing"},
      {"labels with NaN",
       {{{"x", {24, 16, 20, 6}},
         {"y", {24}, Type::f4, [](std::size_t i) { return i % 4 == 0 ? NAN : i % 3; }}}},
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
  for (const auto& some : {volumes(), images(), fields(), tables()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

void write(const std::string& path, const std::vector<Stored>& contents) {
  const H5 file = make_hdf5(path);
  for (const bool attributes : {false, true}) {
    for (const Stored& each : contents) {
      const std::size_t sign = each.path.find('@');
      if ((sign != std::string::npos) != attributes) continue;
      if (!attributes && each.type == Type::text) {
        if (const std::size_t slash = each.path.rfind('/'); slash != std::string::npos) {
          const H5 links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
          H5Pset_create_intermediate_group(links, 1);
          const std::string group = each.path.substr(0, slash);
          if (H5Lexists(file, group.c_str(), H5P_DEFAULT) <= 0)
            const H5 made(H5Gcreate2(file, group.c_str(), links, H5P_DEFAULT, H5P_DEFAULT),
                          H5Gclose);
        }
        write_texts(file, each.path, each.texts, 8);
        continue;
      }
      if (!attributes) {
        std::vector<double> numbers(count_of(each.extents));
        for (std::size_t i = 0; i < numbers.size(); ++i)
          numbers[i] = each.numbers(i);
        write_field(file, each.path, {.extents = each.extents, .type = stored_as(each.type)},
                    numbers);
        continue;
      }
      const std::string name = each.path.substr(0, sign);
      const H5 object(H5Oopen(file, name.empty() ? "/" : name.c_str(), H5P_DEFAULT), H5Oclose);
      const std::string attribute = each.path.substr(sign + 1);
      if (each.type == Type::text) {
        write_texts(object, attribute, each.texts, 32, true);
      } else if (each.type == Type::nothing) {
        const H5 space(H5Screate(H5S_NULL), H5Sclose);
        const H5 made(
            H5Acreate2(object, attribute.c_str(), H5T_C_S1, space, H5P_DEFAULT, H5P_DEFAULT),
            H5Aclose);
      } else {
        write_attribute(object, attribute, each.numbers(0), stored_as(each.type));
      }
    }
  }
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
