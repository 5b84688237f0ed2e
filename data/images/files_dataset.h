// SPDX-License-Identifier: Apache-2.0
// Images of any size in archives or class folders as samples of one size, read in place: (H, W, C)
// bytes with a label each, cropped, decoded and resized as they are read.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/images/decode.h"
#include "data/images/image_index.h"
#include "data/images/image_options.h"
#include "data/images/resample.h"
#include "data/sets/dataset.h"
#include "data/shard/open_files.h"

namespace trireme {

class ImageFilesDataset final : public Dataset {
 public:
  // `indexes`: of the archives or class folders, in order; `classes`: names of the latter. Raises
  // ExitCode::data for labels beyond the model's classes, for no images at all, and for problems in
  // the indexes unless options.damaged allows them.
  ImageFilesDataset(std::vector<ImageIndex> indexes, std::vector<std::string> classes,
                    const ImageOptions& options);

  [[nodiscard]] DataKind kind() const override { return DataKind::images; }
  [[nodiscard]] std::int64_t size() const override { return starts_.back(); }
  [[nodiscard]] const SampleLayout& layout() const override { return layout_; }
  // Over names, sizes, headers of archives and labels; not over pixels, paths and times.
  [[nodiscard]] std::uint64_t fingerprint() const override { return fingerprint_; }
  // Archives; files of class folders are not copied.
  [[nodiscard]] std::vector<std::string> files() const override;
  // As in epoch 0.
  void read(std::int64_t index, std::span<std::byte> inputs,
            std::span<std::int32_t> targets) const override {
    read_in_epoch(0, index, inputs, targets);
  }
  void read_in_epoch(std::int64_t epoch, std::int64_t index, std::span<std::byte> inputs,
                     std::span<std::int32_t> targets) const override;
  [[nodiscard]] IdNames id_names() const override;
  [[nodiscard]] std::string shortcomings() const override;
  [[nodiscard]] std::string touched() const override { return touched_; }
  void set_touched(std::string files) { touched_ = std::move(files); }
  void keep_index(const std::string& path) const override;

  [[nodiscard]] const std::vector<ImageIndex>& indexes() const { return indexes_; }
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
  [[nodiscard]] std::int32_t label(std::int64_t index) const { return find(index).stored().label; }
  // The file, or the archive and the member in it, of a sample: "a.tar: dog.jpg".
  [[nodiscard]] std::string place_of(std::int64_t index) const;
  // The stored bytes of a sample. Raises ExitCode::data if a file has changed.
  void read_stored(std::int64_t index, std::vector<std::byte>& bytes) const;

 private:
  struct Place {
    const ImageIndex* index = nullptr;
    std::size_t image = 0;
    [[nodiscard]] const StoredImage& stored() const { return index->images[image]; }
  };
  void check_problems() const;
  void check_labels() const;
  [[nodiscard]] std::uint64_t make_fingerprint() const;
  [[nodiscard]] Place find(std::int64_t index) const;
  [[nodiscard]] View view_of(const ImageSize& image, std::int64_t index, std::int64_t epoch) const;
  void read_file(const Place& place, std::span<std::byte> to) const;
  // Why there is no image, or nothing.
  [[nodiscard]] std::optional<DamagedImage> draw(std::span<const std::byte> stored,
                                                 std::int64_t index, std::int64_t epoch,
                                                 std::span<std::byte> to) const;
  // Whether the archive itself has another image than `stored`, which was read from a copy. Then
  // the copy is withdrawn and `stored` has the archive's image. Raises ExitCode::data if the
  // archive has changed.
  [[nodiscard]] bool differs_from_archive(std::int64_t index, std::vector<std::byte>& stored) const;
  [[noreturn]] void refuse(std::int64_t index, const DamagedImage& error) const;

  ImageOptions options_;
  std::vector<ImageIndex> indexes_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> starts_{0};  // first sample of each index; one more than indexes
  SampleLayout layout_;
  std::uint64_t fingerprint_ = 0;
  std::string touched_;
  mutable OpenFiles archives_;
  mutable std::atomic<std::uint64_t> skipped_ = 0;
};

// Opens the images of options.source.images, indexed by so many threads of this process.
[[nodiscard]] std::unique_ptr<ImageFilesDataset> open_image_files(const ImageOptions& options,
                                                                  std::size_t threads);

}  // namespace trireme
