// SPDX-License-Identifier: Apache-2.0
#include "models/images/image_exchange.h"

#include <fmt/format.h>

namespace trireme::hugging_face {

std::string image_size_text(std::int64_t height, std::int64_t width) {
  return height == width ? fmt::format("\"image_size\": {}", height)
                         : fmt::format("\"image_size\": [{}, {}]", height, width);
}

std::string class_names_text(std::int64_t classes) {
  std::string names;
  for (std::int64_t i = 0; i < classes; ++i)
    names += fmt::format("{}\n    \"{}\": \"LABEL_{}\"", i == 0 ? "" : ",", i, i);
  return fmt::format("\"id2label\": {{{}\n  }}", names);
}

}  // namespace trireme::hugging_face
