// SPDX-License-Identifier: Apache-2.0
// config.json entries shared by all image families.
#pragma once

#include <cstdint>
#include <string>

#include "models/transformer/hf_keys.h"

namespace trireme::hugging_face {

// "image_size": one number, or [height, width] if they differ.
[[nodiscard]] std::string image_size_text(std::int64_t height, std::int64_t width);
// "id2label": one name per class; transformers counts the classes by it.
[[nodiscard]] std::string class_names_text(std::int64_t classes);

// The number of classes in Hugging Face's config.json; two by default.
[[nodiscard]] std::int64_t classes_of(const HfKeys& keys);
struct ImageSides {
  std::int64_t height, width;  // width 0: the same
};
[[nodiscard]] ImageSides image_sides_of(const HfKeys& keys);

}  // namespace trireme::hugging_face
