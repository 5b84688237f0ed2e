// SPDX-License-Identifier: Apache-2.0
// HDF5 files of any kind as samples, read in place: float32 images (H, W, C) or volumes
// (D, H, W, C), each with a label, a map of classes, or numbers to predict.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/fields/field_options.h"
#include "data/fields/foreground.h"
#include "data/fields/patches.h"
#include "data/fields/sample_numbers.h"
#include "data/fields/sample_shape.h"
#include "data/fields/sample_targets.h"
#include "data/fields/sample_values.h"
#include "data/fields/storage/field_reader.h"
#include "data/fields/stored_fields.h"
#include "data/hdf5/field_scan.h"
#include "data/loader/sampler.h"
#include "data/sets/dataset.h"

namespace trireme {

class FieldDataset final : public Dataset {
 public:
  // `indexes`: of the files that match options.files, in order; `targets`: of options.target_files,
  // if targets are not in the same files. Raises ExitCode::data, naming files and data sets, if
  // they do not form samples of one shape or have no labels.
  FieldDataset(std::vector<FileIndex> indexes, const FieldOptions& options,
               std::vector<FileIndex> targets = {});

  [[nodiscard]] DataKind kind() const override { return DataKind::images; }
  [[nodiscard]] const FieldDataset* fields() const override { return this; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }
  // The classes of text labels, or the given ones.
  [[nodiscard]] IdNames id_names() const override;
  [[nodiscard]] std::vector<std::string> files() const override;
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override;
  // In training: with this pass's patch, flips, brightness and noise. read(): of patches the
  // centre.
  void read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                     std::span<std::int32_t> targets) const override;
  // With data.patches: as read(), the part of the layout's size that begins at `first`; and the
  // extents of the whole sample, which it must not leave. Empty targets are not read.
  void read_patch(std::int64_t index, const Voxel& first, std::span<std::byte> inputs,
                  std::span<std::int32_t> targets) const;
  [[nodiscard]] Voxel extents_of(std::int64_t index) const;
  [[nodiscard]] float weight(std::int64_t index) const override;
  [[nodiscard]] std::string touched() const override { return touched_; }
  void set_touched(std::string files) { touched_ = std::move(files); }
  [[nodiscard]] DecodedChunks decoded_chunks() const override { return reader_.cache().decoded(); }
  [[nodiscard]] std::int64_t samples_of_chunk() const override;
  [[nodiscard]] std::string shortcomings() const override;
  [[nodiscard]] std::unique_ptr<Dataset> held_back() const override;
  void keep_index(const std::string& path) const override;

  // All targets of a sample: classes, or the bits of floats.
  void read_targets(std::int64_t index, std::span<std::int32_t> to) const;
  [[nodiscard]] const std::vector<FileIndex>& indexes() const { return indexes_; }
  [[nodiscard]] const SampleShape& shape() const { return *shape_; }
  [[nodiscard]] std::uint64_t targets_left_out() const { return targets_.left_out(); }
  [[nodiscard]] InputTransform input_transform() const { return options_.transform; }
  [[nodiscard]] const FieldReader& reader() const { return reader_; }
  // The file and unit of a sample, and its number there, for messages: "a.h5, sample 3".
  [[nodiscard]] std::string place_of(std::int64_t index) const;

 private:
  struct Place {
    UnitFields unit;
    std::uint64_t number = 0;  // of the sample in the unit
  };
  void take_units();
  void check_model() const;
  void require_no_text(const UnitFields& unit) const;
  void choose_subset();
  // Raises ExitCode::data for a text label that no sample of `training` has.
  void require_seen(const FieldDataset& training) const;
  [[nodiscard]] std::uint64_t make_fingerprint() const;
  [[nodiscard]] Place find(std::int64_t index) const;
  // Raises ExitCode::config for changes that do not fit the model, ExitCode::data for samples that
  // are smaller than a patch.
  void check_patches() const;
  [[nodiscard]] Voxel patch_of(const SampleDraws& draws, std::int64_t index) const;
  [[nodiscard]] Voxel centre_of(std::int64_t index) const;
  // `shape`: of the part that is read.
  void read_part(const Place& place, const SampleShape& shape, const SampleShape& of_targets,
                 std::span<std::byte> inputs, std::span<std::int32_t> targets) const;
  void skip(std::int64_t index, const DamagedChunk& error, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const;
  void read_input(const Place& place, const SampleShape& shape, std::span<float> to) const;
  void read_lines(const Place& place, const SampleShape& shape, const Lines& lines,
                  std::span<float> to) const;
  // Before scaling.
  void read_stored(const Place& place, const SampleShape& shape, const Lines& lines,
                   std::span<float> to) const;
  void settle(const Place& place, std::span<float> values) const;

  FieldOptions options_;
  std::vector<FileIndex> indexes_;  // with the targets
  std::vector<FileIndex> target_indexes_;
  std::vector<UnitFields> units_;
  std::vector<std::uint64_t> starts_;  // first sample of each unit; one more than units
  std::optional<SampleShape> shape_;
  std::optional<SampleShape> read_;  // the part of a sample's inputs that is read, or all
  SampleTargets targets_;
  std::optional<RowScale> scale_;
  std::optional<Permutation> order_;   // for a random split
  std::vector<std::uint64_t> chosen_;  // for a split by key
  std::int64_t size_ = 0, first_ = 0;
  SampleLayout layout_;
  std::uint64_t fingerprint_ = 0;
  bool in_order_ = false;  // the numbers of each file are in the order of a sample
  std::string touched_;
  FieldReader reader_;
  Foreground foreground_;
  mutable std::atomic<std::uint64_t> not_finite_ = 0, skipped_ = 0;
};

// Scans the files that the options name in up to `processes` children, and opens them.
[[nodiscard]] std::unique_ptr<FieldDataset> open_fields(const FieldOptions& options,
                                                        std::size_t processes);

}  // namespace trireme
