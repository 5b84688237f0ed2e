// SPDX-License-Identifier: Apache-2.0
#include "data/images/image_index.h"

#include <sys/stat.h>

#include <algorithm>

#include "data/index_archive.h"

namespace trireme {

inline constexpr std::uint64_t image_index_mark =
    0x31584449474d4954;  // "TIMGIDX1": changes with the format

template <typename Archive>
void transfer(Archive& archive, FolderState& state) {
  archive(state.path);
  archive(state.modified);
}

template <typename Archive>
void transfer(Archive& archive, ImageIndex& index) {
  archive(index.path);
  transfer(archive, index.folder);
  archive(index.state.size);
  archive(index.state.modified);
  archive(index.folders);
  archive(index.digest);
  archive(index.images);
  archive(index.names);
  archive(index.modified);
  archive(index.problems);
  archive(index.notes);
}

namespace {

bool is_sound(const ImageIndex& index) {
  const std::size_t count = index.images.size();
  if (index.modified.size() != (index.folder ? count : 0)) return false;
  std::uint64_t name_end = 0;
  for (const StoredImage& image : index.images) {
    if (image.label < 0 || image.bytes == 0 || image.bytes > most_image_bytes) return false;
    if (!index.folder) {
      if (image.place > index.state.size || image.bytes > index.state.size - image.place)
        return false;
      continue;
    }
    if (image.place <= name_end || image.place > index.names.size()) return false;
    name_end = image.place;
  }
  return index.names.find('\0') == index.names.npos;
}

}  // namespace

std::string_view ImageIndex::name_of(std::size_t image) const {
  const std::uint64_t begin = image == 0 ? 0 : images[image - 1].place;
  return std::string_view(names).substr(begin, images[image].place - begin);
}

std::uint64_t ImageIndex::image_bytes() const {
  std::uint64_t bytes = 0;
  for (const StoredImage& image : images)
    bytes += image.bytes;
  return bytes;
}

std::string bytes_of(ImageIndex index) {
  std::string bytes;
  IndexWriter writer(bytes);
  std::uint64_t mark = image_index_mark;
  writer(mark);
  transfer(writer, index);
  return bytes;
}

ImageIndex parse_image_index(std::string_view bytes) {
  IndexParser parser(bytes, "an index of images");
  ImageIndex index;
  std::uint64_t mark = 0;
  parser(mark);
  if (mark != image_index_mark)
    fail(ExitCode::data, "not an index of images, or one of another version");
  transfer(parser, index);
  if (!parser.at_end() || !is_sound(index))
    fail(ExitCode::data, "{}: the index of images is inconsistent", index.path);
  return index;
}

FolderState state_of_folder(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) system_failed("stat", path, ExitCode::data);
  constexpr std::int64_t nanoseconds = 1'000'000'000;
  return {path, found.st_mtim.tv_sec * nanoseconds + found.st_mtim.tv_nsec};
}

bool is_as_it_was(const ImageIndex& index) {
  if (!index.folder) return state_of_file(index.path) == index.state;
  return std::ranges::all_of(index.folders, [](const FolderState& folder) {
    return state_of_folder(folder.path) == folder;
  });
}

}  // namespace trireme
