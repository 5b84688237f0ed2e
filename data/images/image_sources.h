// SPDX-License-Identifier: Apache-2.0
// Finds and indexes the images that a config names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/images/image_index.h"
#include "data/images/tar_samples.h"

namespace trireme {

struct ImageSources {
  std::vector<std::string> paths;    // archives, or class folders in class order
  std::vector<std::string> classes;  // of class folders; empty: archives, which have numeric labels
};

// From archives (*.tar), directories of archives, and patterns with * ? []; or from one directory
// of class folders. Archives keep the given order, sorted within a directory or pattern, without
// duplicates; classes are sorted by name. Raises ExitCode::data naming an entry that is neither or
// both.
[[nodiscard]] ImageSources find_images(const std::vector<std::string>& names);

// Whether a name refers to images, judged by names: *.tar, a directory of archives, or class
// folders with images. False for directories of packed shards.
[[nodiscard]] bool names_images(const std::string& name);

// Indexes one of the paths; `label`: a folder's class. Raises ExitCode::data.
[[nodiscard]] ImageIndex index_of_folder(const std::string& path, std::int32_t label);

struct ImageScan {
  ImageSources sources;
  LabelRule rule;
};
// Indexes some paths of the sources, in order, on this number of threads.
[[nodiscard]] std::vector<ImageIndex> scan_images(const ImageScan& scan,
                                                  std::span<const std::string> paths,
                                                  std::size_t threads);

// Stores the indexes with a run.
void keep_image_indexes(const std::string& path, const ImageScan& scan,
                        std::span<const ImageIndex> indexes);

struct KeptImages {
  std::vector<ImageIndex> good;   // unchanged sources, by sizes and modification times
  std::vector<ImageIndex> stale;  // sources that have changed since
};
// Empty, without an error, if `path` is missing, damaged or for other sources.
[[nodiscard]] KeptImages kept_images(const std::string& path, const ImageScan& scan);

// Files that were written to between two indexings of a source and kept their size, so the
// fingerprint may be equal: the archive, or files of the folder.
[[nodiscard]] std::vector<std::string> touched_files(const ImageIndex& before,
                                                     const ImageIndex& now);

}  // namespace trireme
