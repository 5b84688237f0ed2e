// SPDX-License-Identifier: Apache-2.0
// Of volumes.
#pragma once

#include "tests/data/fields/layouts.h"

namespace trireme::test {

inline std::vector<Layout> volumes() {
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
  };
}

inline std::vector<Layout> volumes_in_groups() {
  return {
      {"a group per volume",
       groups(4,
              [](const std::string& at, hsize_t) -> std::vector<Stored> {
                return {{at + "/image", {20, 24, 24}},
                        {at + "/mask", {20, 24, 24}, Type::u1, classes(2)}};
              }),
       "group image mask DHW", "classes: 2,", true},
      {"a group per volume, of few slices",
       groups(4,
              [](const std::string& at, hsize_t) -> std::vector<Stored> {
                return {{at + "/image", {10, 24, 24}},
                        {at + "/mask", {10, 24, 24}, Type::u1, classes(2)}};
              }),
       "group image mask DHW", "classes: 2,"},
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

}  // namespace trireme::test
