// SPDX-License-Identifier: Apache-2.0
// Proof that every image of archives or class folders decodes: of a run's crops, parts alone do.
#pragma once

#include <string>
#include <vector>

#include "data/images/image_sources.h"
#include "data/verify.h"

namespace trireme {

class ImageVerifier {
 public:
  // Looks through headers and labels, or names and sizes, of what `names` stands for, by so many
  // threads. Raises ExitCode::data for names that stand for no images.
  ImageVerifier(const std::vector<std::string>& names, const LabelRule& rule, std::size_t threads);

  [[nodiscard]] std::uint64_t bytes() const;  // of all images
  // Decodes all of every image. A report of each archive or class folder, with all that is wrong in
  // it. `progress` may come from any thread.
  [[nodiscard]] std::vector<ShardReport> run(const ByteProgress& progress);

 private:
  void decode_all(ImageIndex index, ShardReport& report, const ByteProgress& progress) const;

  std::size_t threads_;
  std::vector<ImageIndex> indexes_;
  std::vector<ShardReport> reports_;  // of each
};

}  // namespace trireme
