// SPDX-License-Identifier: Apache-2.0
// What the config names as images to read in place, and what is learned of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/images/image_index.h"
#include "data/images/tar_samples.h"

namespace trireme {

struct ImageSources {
  std::vector<std::string> paths;    // archives, or class folders in order of their classes
  std::vector<std::string> classes;  // of class folders; empty: archives, whose labels are numbers
};

// Of archives (*.tar), directories that hold some, and patterns with * ? []; or of one directory of
// class folders. Archives come in the order given, sorted where a directory or a pattern stands
// for several, each once; classes are sorted by name. Raises ExitCode::data naming what stands for
// neither, or for both.
[[nodiscard]] ImageSources find_images(const std::vector<std::string>& names);

// Whether a name is of images, as far as names tell: *.tar, a directory that holds some, or class
// folders with images in them. Not where packed shards lie.
[[nodiscard]] bool names_images(const std::string& name);

// Of one path of these; `label`: its class, of a folder. Raises ExitCode::data.
[[nodiscard]] ImageIndex index_of_folder(const std::string& path, std::int32_t label);

struct ImageScan {
  ImageSources sources;
  LabelRule rule;
};
// Of some paths of the sources, in their order, by so many threads.
[[nodiscard]] std::vector<ImageIndex> scan_images(const ImageScan& scan,
                                                  std::span<const std::string> paths,
                                                  std::size_t threads);

// Kept beside a run.
void keep_image_indexes(const std::string& path, const ImageScan& scan,
                        std::span<const ImageIndex> indexes);

struct KeptImages {
  std::vector<ImageIndex> good;   // of the sources, by their sizes and times of change
  std::vector<ImageIndex> stale;  // of sources that have changed since
};
// None where `path` is not there, is damaged or for other sources: that is no error.
[[nodiscard]] KeptImages kept_images(const std::string& path, const ImageScan& scan);

// Files that were written to between two looks at one source and kept their size, so that the
// fingerprint may be the same: the archive, or files of the folder.
[[nodiscard]] std::vector<std::string> touched_files(const ImageIndex& before,
                                                     const ImageIndex& now);

}  // namespace trireme
