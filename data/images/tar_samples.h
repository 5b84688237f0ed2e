// SPDX-License-Identifier: Apache-2.0
// Samples of a tar archive by WebDataset's rule: members whose names agree up to the first dot of
// the last path component form a sample, KEY.jpg or KEY.png with KEY.cls.
// https://github.com/webdataset/webdataset
#pragma once

#include <string>

#include "data/images/image_index.h"

namespace trireme {

// The member with the label, and its place in it: "cls", "txt", "json:label".
struct LabelRule {
  std::string extension;
  std::string field;  // in a JSON object; empty: the whole text is the number
};
[[nodiscard]] LabelRule label_rule(const std::string& text);

// Scans a whole archive, reading only headers and labels. Damage of the archive, which hides what
// follows, is listed in the index's problems like an image without a label. Raises ExitCode::data
// for a file that cannot be read or is not an archive.
[[nodiscard]] ImageIndex index_of_archive(const std::string& path, const LabelRule& rule);

// For messages: the archive member whose content begins there.
[[nodiscard]] std::string member_at(const std::string& path, std::uint64_t place);

// JPEG and PNG by file extension; extensions of other image formats.
[[nodiscard]] bool is_image_name(std::string_view extension);
[[nodiscard]] bool is_other_image_name(std::string_view extension);

}  // namespace trireme
