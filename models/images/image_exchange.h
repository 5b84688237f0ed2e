// SPDX-License-Identifier: Apache-2.0
// What config.json says alike of every family of images.
#pragma once

#include <cstdint>
#include <string>

#include "models/transformer/hf_keys.h"

namespace trireme::hugging_face {

// "image_size": one number, or [height, width] where they differ.
[[nodiscard]] std::string image_size_text(std::int64_t height, std::int64_t width);
// "id2label": a name for each class, by which transformers counts them.
[[nodiscard]] std::string class_names_text(std::int64_t classes);

// Of their config.json: two where nothing is said of them.
[[nodiscard]] std::int64_t classes_of(const HfKeys& keys);
struct ImageSides {
  std::int64_t height, width;  // width 0: the same
};
[[nodiscard]] ImageSides image_sides_of(const HfKeys& keys);

}  // namespace trireme::hugging_face
