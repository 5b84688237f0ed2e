// SPDX-License-Identifier: Apache-2.0
// What config.json says alike of every family of images.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::hugging_face {

// "image_size": one number, or [height, width] where they differ.
[[nodiscard]] std::string image_size_text(std::int64_t height, std::int64_t width);
// "id2label": a name for each class, by which transformers counts them.
[[nodiscard]] std::string class_names_text(std::int64_t classes);

}  // namespace trireme::hugging_face
