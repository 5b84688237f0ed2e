// SPDX-License-Identifier: Apache-2.0
// Samples of a tar archive by WebDataset's rule: members of one name up to the first dot of its
// last part belong together, KEY.jpg or KEY.png beside KEY.cls.
// https://github.com/webdataset/webdataset
#pragma once

#include <string>

#include "data/images/image_index.h"

namespace trireme {

// Which member has the label, and where in it: "cls", "txt", "json:label".
struct LabelRule {
  std::string extension;
  std::string field;  // of a JSON object; empty: the whole text is the number
};
[[nodiscard]] LabelRule label_rule(const std::string& text);

// Looks through all of an archive, headers and labels alone. What lies behind damage of the archive
// itself is a problem of the index like an image without a label. Raises ExitCode::data for a file
// that cannot be read or is no archive at all.
[[nodiscard]] ImageIndex index_of_archive(const std::string& path, const LabelRule& rule);

// The member of an archive whose content begins there, for messages.
[[nodiscard]] std::string member_at(const std::string& path, std::uint64_t place);

// JPEG and PNG, by the end of a name; the ends of other formats of images.
[[nodiscard]] bool is_image_name(std::string_view extension);
[[nodiscard]] bool is_other_image_name(std::string_view extension);

}  // namespace trireme
