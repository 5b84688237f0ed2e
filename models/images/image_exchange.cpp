// SPDX-License-Identifier: Apache-2.0
#include "models/images/image_exchange.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

std::int64_t classes_of(const HfKeys& keys) {
  const HfKeys::Json* const labels = keys.find("id2label");
  if (labels != nullptr && labels->is_object()) return static_cast<std::int64_t>(labels->size());
  return keys.find("num_labels") != nullptr ? keys.size("num_labels") : 2;
}

ImageSides image_sides_of(const HfKeys& keys) {
  const HfKeys::Json* const size = keys.find("image_size");
  if (size != nullptr && size->is_array() && size->size() == 2 && (*size)[0].is_number_integer() &&
      (*size)[1].is_number_integer())
    return {(*size)[0].get<std::int64_t>(), (*size)[1].get<std::int64_t>()};
  return {keys.size("image_size"), 0};
}

}  // namespace trireme::hugging_face
