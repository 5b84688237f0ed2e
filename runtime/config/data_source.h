// SPDX-License-Identifier: Apache-2.0
// The keys of one data set: of the data section, and of each of data.sources. The data module uses
// these structs directly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/choices.h"

namespace trireme {

enum class DataPart : std::uint8_t { training, validation };

// HDF5 files read in place. Other kinds share damaged, mean and std.
struct FieldSource {
  std::vector<std::string> files{};  // files, directories, patterns
  std::vector<std::string> validation_files{};
  std::vector<std::string> test_files{};
  // Of the targets, if they are not in `files`: one row per sample, in the samples' order.
  std::vector<std::string> target_files{}, validation_target_files{};
  std::string target_names{};  // field of target_files that names the file or group of a row;
                               // empty: by order
  // Of validation samples in `files`, beside or instead of those of training.
  std::vector<std::string> validation_inputs{}, validation_target{};
  // Share of the samples for validation, in a fixed random order.
  double validation_fraction = 0;
  // Or the samples with one of these keys; the rest, without those of `test`, is for training.
  std::string split_key{};                       // a field as `target`, or "name": of file or group
  std::vector<std::string> validation_values{};  // texts and names: patterns
  std::vector<std::string> test_values{};
  SampleUnit samples = SampleUnit::file;
  std::string groups = "*";  // that are samples: a pattern for each name of their paths
  std::string group_list{}, validation_group_list{};  // texts that name some of them; "": all
  std::vector<std::string> inputs{};
  std::vector<std::string> target{};
  std::vector<double> target_mean{}, target_std{};  // of targets that are values; empty: unscaled
  std::int64_t ignored_class = -1;                  // the label of a map that is no target
  std::vector<std::string> class_names{};           // of labels that are text; empty = sorted
  std::string mask{};                               // 0 where inputs are left out; "" for none
  std::string weight{};                             // of a sample's loss; "" for none
  std::string axes = "HWC";
  std::vector<std::int64_t> input_channels{};  // empty = all
  // top, left, height, width; of volumes front, top, left, depth, height, width; empty = all
  std::vector<std::int64_t> crop{};
  bool patches = false;         // samples are parts of the model's size
  double foreground_share = 0;  // of patches
  std::vector<double> flips{};  // probability along [slices,] rows, columns; empty = none
  bool random_rot90 = false;    // of rows and columns
  std::vector<double> brightness{}, noise{};  // amount, probability; empty = none
  std::int64_t window = 0;                    // steps of the axis T; 0 = all
  std::int64_t window_stride = 1;
  std::int64_t steps_ahead = 0;
  bool bfloat16 = false;
  bool mask_and_scale = true;
  std::vector<double> mean{};
  std::vector<double> std{};
  InputTransform transform = InputTransform::none;
  Scaling scaling = Scaling::none;
  std::string statistics{};                     // a file
  std::vector<std::string> statistics_paths{};  // inside it, if it is HDF5
  NotFinite not_finite = NotFinite::refuse;
  Damaged damaged = Damaged::refuse;
  bool outside_links = false;
  double cache_megabytes = 256;
  friend bool operator==(const FieldSource&, const FieldSource&) = default;

  // Whether samples of data.files are held back for validation.
  [[nodiscard]] bool holds_back() const {
    return validation_fraction > 0 || !validation_values.empty();
  }
  // Whether validation samples are others in data.files.
  [[nodiscard]] bool validates_inside() const {
    return !validation_inputs.empty() || !validation_group_list.empty();
  }
  // For an evaluation on other files.
  void leave_inside() {
    validation_inputs.clear();
    validation_target.clear();
    validation_group_list.clear();
  }
  // Whether a sample differs from pass to pass.
  [[nodiscard]] bool varies() const {
    return patches || random_rot90 || !flips.empty() || !brightness.empty() || !noise.empty();
  }
};

// Images of any size read in place.
struct ImageFilesSource {
  std::vector<std::string> images{};
  std::vector<std::string> validation_images{};
  std::string label = "cls";                             // a member's extension, or extension:field
  std::vector<double> crop_scale{0.08, 1};               // of the area; empty = the centre
  std::vector<double> crop_ratio{3.0 / 4.0, 4.0 / 3.0};  // width / height
  std::int64_t eval_resize = 0;                          // 0 = 8/7 of the short side
  bool reduced_decode = true;
  std::int64_t max_pixels = std::int64_t{1} << 27;
  friend bool operator==(const ImageFilesSource&, const ImageFilesSource&) = default;
};

// Packed shards or tokens of Megatron-LM (chosen by `path`), or files read in place.
enum class SourceKind : std::uint8_t { packed, files, images };

struct DataSource : FieldSource, ImageFilesSource {
  std::string path;
  std::string validation_path;
  std::string test_path;
  std::int64_t token_bytes = 0;  // of a .bin file without index: 2 or 4; 0 = by its content
  friend bool operator==(const DataSource&, const DataSource&) = default;

  // Its keys; packed where nothing is named yet. The rules refuse keys of another kind.
  [[nodiscard]] SourceKind kind() const {
    if (!files.empty() || !validation_files.empty()) return SourceKind::files;
    return images.empty() && validation_images.empty() ? SourceKind::packed : SourceKind::images;
  }
  // The input of `part`, and its key: "data.path".
  struct Place {
    std::string_view key;
    std::vector<std::string> names;
  };
  [[nodiscard]] Place place(DataPart part) const {
    const bool training = part == DataPart::training;
    switch (kind()) {
      case SourceKind::files:
        if (training || holds_back() || (validation_files.empty() && validates_inside()))
          return {"data.files", files};
        return {"data.validation_files", validation_files};
      case SourceKind::images:
        if (training) return {"data.images", images};
        return {"data.validation_images", validation_images};
      case SourceKind::packed:
        break;
    }
    if (training) return {"data.path", {path}};
    return {"data.validation_path", {validation_path}};
  }
  // Whether it defines validation data.
  [[nodiscard]] bool validates() const {
    return !validation_path.empty() || !validation_files.empty() || !validation_images.empty() ||
           holds_back() || validates_inside();
  }
};

// One of several that are mixed.
struct NamedSource : DataSource {
  std::string name;  // "": the input's name
  friend bool operator==(const NamedSource&, const NamedSource&) = default;

  // Its name in reports.
  [[nodiscard]] const std::string& label() const {
    if (!name.empty()) return name;
    return !files.empty() ? files.front() : !images.empty() ? images.front() : path;
  }
};

}  // namespace trireme
