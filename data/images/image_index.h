// SPDX-License-Identifier: Apache-2.0
// Where the images of a data set lie that is read in place: what has been learned of a tar archive
// or a class folder. Plain data, which goes from process to process and is kept beside a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

// 16 bytes for each sample: what a rank keeps in memory of an archive.
struct StoredImage {
  // Of an archive: where its bytes begin. Of a folder: where its name ends in ImageIndex::names.
  std::uint64_t place = 0;
  std::uint32_t bytes = 0;
  std::int32_t label = 0;
  friend bool operator==(const StoredImage&, const StoredImage&) = default;
};
inline constexpr std::uint64_t most_image_bytes = std::uint64_t{1} << 30;

struct FolderState {
  std::string path;
  std::int64_t modified = 0;  // nanoseconds: another one where names came or went
  friend bool operator==(const FolderState&, const FolderState&) = default;
};

struct ImageIndex {
  std::string path;  // of the archive or the class folder
  bool folder = false;
  FileState state;                   // of an archive
  std::vector<FolderState> folders;  // of a class folder: itself and those below
  std::uint64_t digest = 0;          // of the archive's headers and labels
  std::vector<StoredImage> images;
  std::string names;                   // of a folder's files, below it, one behind the other
  std::vector<std::int64_t> modified;  // of each of them, nanoseconds
  // What cannot be samples: "PLACE: reason". Refused, or with data.damaged: skip listed.
  std::vector<std::string> problems;
  std::vector<std::string> notes;  // what was left out as it is no image
  friend bool operator==(const ImageIndex&, const ImageIndex&) = default;

  // Of a file of a folder, below it.
  [[nodiscard]] std::string_view name_of(std::size_t image) const;
  [[nodiscard]] std::uint64_t image_bytes() const;  // of all of them
};

// Bytes, and back. What comes back is checked as if it had come from a stranger: whatever parses
// can be read without reaching beyond memory. Raises ExitCode::data.
[[nodiscard]] std::string bytes_of(ImageIndex index);
[[nodiscard]] ImageIndex parse_image_index(std::string_view bytes);

// Whether what the index was made of is still the same, by sizes and times of change.
[[nodiscard]] bool is_as_it_was(const ImageIndex& index);

// Time of change of a folder. Raises ExitCode::data.
[[nodiscard]] FolderState state_of_folder(const std::string& path);

}  // namespace trireme
