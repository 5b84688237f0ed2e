// SPDX-License-Identifier: Apache-2.0
#include "data/images/files_dataset.h"

#include <algorithm>
#include <filesystem>

#include "data/images/image_sources.h"
#include "data/images/tar_samples.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

// The path of a file in a class folder.
std::string path_of(const ImageIndex& folder, std::size_t image) {
  return fmt::format("{}/{}", folder.path, folder.name_of(image));
}

}  // namespace

ImageFilesDataset::ImageFilesDataset(std::vector<ImageIndex> indexes,
                                     std::vector<std::string> classes, const ImageOptions& options)
    : options_(options), indexes_(std::move(indexes)), classes_(std::move(classes)) {
  check_problems();
  for (const ImageIndex& index : indexes_)
    starts_.push_back(starts_.back() + static_cast<std::int64_t>(index.images.size()));
  if (size() == 0) fail(ExitCode::data, "data.images: there are no images with labels");
  check_labels();
  layout_ = image_samples(options.height, options.width, options.channels);
  fingerprint_ = make_fingerprint();
}

void ImageFilesDataset::check_problems() const {
  constexpr std::size_t most_shown = 20;
  std::size_t count = 0;
  for (const ImageIndex& index : indexes_) {
    for (const std::string& problem : index.problems) {
      if (options_.damaged == Damaged::refuse) {
        fail(ExitCode::data, "{}; fix it, or skip damaged images with data.damaged: skip", problem);
      }
      if (count++ < most_shown) log::get("data").warn("left out (data.damaged: skip): {}", problem);
    }
  }
  if (count > most_shown) log::get("data").warn("{} more were left out", count - most_shown);
}

void ImageFilesDataset::check_labels() const {
  const std::int64_t classes = options_.classes;
  if (classes == 0) return;
  if (static_cast<std::int64_t>(classes_.size()) > classes) {
    fail(ExitCode::data,
         "{}: has {} class folders, more than model.classes = {}; set model.classes to at least {}",
         std::filesystem::path(indexes_.front().path).parent_path().string(), classes_.size(),
         classes, classes_.size());
  }
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    const auto& images = indexes_[i].images;
    const auto bad = std::ranges::find_if(
        images, [&](const StoredImage& image) { return image.label >= classes; });
    if (bad == images.end()) continue;
    fail(ExitCode::data,
         "{}: has the label {}, but model.classes = {} allows 0 to {}; set model.classes to at "
         "least {}",
         place_of(starts_[i] + (bad - images.begin())), bad->label, classes, classes - 1,
         bad->label + 1);
  }
}

std::uint64_t ImageFilesDataset::make_fingerprint() const {
  Checksum sum;
  const auto add = [&](const auto& list) { sum.update(std::as_bytes(std::span(list))); };
  for (const ImageIndex& index : indexes_) {
    add(std::to_string(index.images.size()));
    sum.update(std::as_bytes(std::span(&index.digest, 1)));
    add(index.images);
    add(index.names);
  }
  for (const std::string& name : classes_)
    add(name + "\n");
  add(fmt::format("{} {}", options_.source.label, size()));
  return sum.value();
}

ImageFilesDataset::Place ImageFilesDataset::find(std::int64_t index) const {
  TRIREME_EXPECTS(index >= 0 && index < size(), "image {} of {}", index, size());
  const auto next = std::ranges::upper_bound(starts_, index);
  const auto which = static_cast<std::size_t>(next - starts_.begin()) - 1;
  return {&indexes_[which], static_cast<std::size_t>(index - starts_[which])};
}

std::string ImageFilesDataset::place_of(std::int64_t index) const {
  const Place place = find(index);
  if (place.index->folder) return path_of(*place.index, place.image);
  return fmt::format("{}: {}", place.index->path,
                     member_at(place.index->path, place.stored().place));
}

void ImageFilesDataset::read_file(const Place& place, std::span<std::byte> to) const {
  const std::string path = path_of(*place.index, place.image);
  const FileDescriptor file = open_regular_file(path, ExitCode::data);
  const FileState wanted{to.size(), place.index->modified[place.image]};
  if (state_of_file(file, path) != wanted)
    refuse_changed_file(path, "its size or mtime has changed");
  read_exactly(file, path, 0, to, ExitCode::data);
}

void ImageFilesDataset::read_stored(std::int64_t index, std::vector<std::byte>& bytes) const {
  const Place place = find(index);
  const StoredImage& stored = place.stored();
  bytes.resize(stored.bytes);
  if (place.index->folder) return read_file(place, bytes);
  const ImageIndex& archive = *place.index;
  const auto file = archives_.open(archive.path, archive.state.size);
  if (file->watch.stamp().modified != archive.state.modified)
    refuse_changed_file(archive.path, "its mtime has changed");
  file->check();
  file->data.read(stored.place, bytes);
}

View ImageFilesDataset::view_of(const ImageSize& image, std::int64_t index,
                                std::int64_t epoch) const {
  if (options_.crop) {
    return view_of_region(random_crop(image, *options_.crop, options_.seed, index, epoch),
                          options_.height, options_.width);
  }
  const std::int64_t side = std::min(options_.height, options_.width);
  const std::int64_t resize =
      options_.source.eval_resize > 0 ? options_.source.eval_resize : centre_resize(side);
  const ImageSize cover{options_.height * resize / side, options_.width * resize / side};
  return view_of_centre(image, cover, options_.height, options_.width);
}

std::optional<DamagedImage> ImageFilesDataset::draw(std::span<const std::byte> stored,
                                                    std::int64_t index, std::int64_t epoch,
                                                    std::span<std::byte> to) const {
  View view;
  try {
    const DecodedPart part =
        decode_part(stored, options_.channels, options_.max_pixels(), [&](const ImageSize& image) {
          view = view_of(image, index, epoch);
          return PartWanted{needed_for(view),
                            options_.source.reduced_decode ? reduction_for(view) : 1};
        });
    resample(part, view, {reinterpret_cast<std::uint8_t*>(to.data()), to.size()});
    return std::nullopt;
  } catch (const DamagedImage& error) {
    return error;
  }
}

bool ImageFilesDataset::differs_from_archive(std::int64_t index,
                                             std::vector<std::byte>& stored) const {
  const Place place = find(index);
  const ImageIndex& archive = *place.index;
  if (archive.folder) return false;
  const auto file = archives_.open(archive.path, archive.state.size);
  file->watch.check_now(file->data.source().descriptor(), archive.path);
  std::vector<std::byte> own(stored.size());
  file->data.source().read(place.stored().place, own);
  if (own == stored) return false;
  static_cast<void>(
      file->data.leave_copy("an image does not decode, but differs from the one in the archive"));
  stored.swap(own);
  return true;
}

void ImageFilesDataset::read_in_epoch(std::int64_t epoch, std::int64_t index,
                                      std::span<std::byte> inputs,
                                      std::span<std::int32_t> targets) const {
  TRIREME_EXPECTS(inputs.size() == layout_.input_bytes() && targets.size() == 1,
                  "{} bytes and {} labels", inputs.size(), targets.size());
  thread_local std::vector<std::byte> stored;
  read_stored(index, stored);
  targets[0] = label(index);
  auto damage = draw(stored, index, epoch, inputs);
  if (damage && differs_from_archive(index, stored)) damage = draw(stored, index, epoch, inputs);
  if (!damage) return;
  if (options_.damaged == Damaged::refuse) refuse(index, *damage);
  std::ranges::fill(inputs, std::byte{0});
  targets[0] = ignored_target;
  ++skipped_;
  log::get("data").warn("sample {} is left out (data.damaged: skip): {}: {}", index,
                        place_of(index), damage->what());
}

void ImageFilesDataset::refuse(std::int64_t index, const DamagedImage& error) const {
  fail(ExitCode::data, "{}: sample {}: {}; {}, or skip damaged images with data.damaged: skip",
       place_of(index), index, error.what(),
       error.too_large() ? "raise data.max_pixels if the image is valid" : "replace the image");
}

IdNames ImageFilesDataset::id_names() const {
  if (classes_.empty()) return {};
  return {std::filesystem::path(indexes_.front().path).parent_path().string(), "", classes_};
}

std::vector<std::string> ImageFilesDataset::files() const {
  std::vector<std::string> archives;
  for (const ImageIndex& index : indexes_) {
    if (!index.folder) archives.push_back(index.path);
  }
  return archives;
}

void ImageFilesDataset::keep_index(const std::string& path) const {
  keep_image_indexes(path, {{{}, classes_}, label_rule(options_.source.label)}, indexes_);
}

std::string ImageFilesDataset::shortcomings() const {
  if (skipped_ == 0) return "";
  return fmt::format("left out {} samples whose images did not decode", skipped_.load());
}

std::unique_ptr<ImageFilesDataset> open_image_files(const ImageOptions& options,
                                                    std::size_t threads) {
  const ImageScan scan{find_images(options.source.images), label_rule(options.source.label)};
  return std::make_unique<ImageFilesDataset>(scan_images(scan, scan.sources.paths, threads),
                                             scan.sources.classes, options);
}

}  // namespace trireme
