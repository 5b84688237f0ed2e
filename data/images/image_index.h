// SPDX-License-Identifier: Apache-2.0
// Index of a tar archive or class folder that is read in place. Plain data, sent between processes
// and stored with a run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/fields/storage/field_index.h"

namespace trireme {

// 16 bytes per sample: a rank's memory for an archive.
struct StoredImage {
  // Archive: offset of the bytes. Folder: end of the name in ImageIndex::names.
  std::uint64_t place = 0;
  std::uint32_t bytes = 0;
  std::int32_t label = 0;
  friend bool operator==(const StoredImage&, const StoredImage&) = default;
};
inline constexpr std::uint64_t most_image_bytes = std::uint64_t{1} << 30;

struct FolderState {
  std::string path;
  std::int64_t modified = 0;  // nanoseconds; changes when names are added or removed
  friend bool operator==(const FolderState&, const FolderState&) = default;
};

struct ImageIndex {
  std::string path;  // of the archive or the class folder
  bool folder = false;
  FileState state;                   // of an archive
  std::vector<FolderState> folders;  // of a class folder: itself and its subfolders
  std::uint64_t digest = 0;          // of the archive's headers and labels
  std::vector<StoredImage> images;
  std::string names;                   // concatenated relative paths of a folder's files
  std::vector<std::int64_t> modified;  // per file, nanoseconds
  // Entries that cannot be samples: "PLACE: reason". An error, or only listed with data.damaged:
  // skip.
  std::vector<std::string> problems;
  std::vector<std::string> notes;  // files ignored because they are not images
  friend bool operator==(const ImageIndex&, const ImageIndex&) = default;

  // Relative path of a folder's file.
  [[nodiscard]] std::string_view name_of(std::size_t image) const;
  [[nodiscard]] std::uint64_t image_bytes() const;  // of all images
};

// Serialise and parse. Parsing treats its input as untrusted: what parses can be read within the
// bounds of memory. Raises ExitCode::data.
[[nodiscard]] std::string bytes_of(ImageIndex index);
[[nodiscard]] ImageIndex parse_image_index(std::string_view bytes);

// Whether the indexed files are unchanged, by sizes and modification times.
[[nodiscard]] bool is_as_it_was(const ImageIndex& index);

// Modification time of a folder. Raises ExitCode::data.
[[nodiscard]] FolderState state_of_folder(const std::string& path);

}  // namespace trireme
