// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/fields/describe.h"
#include "data/images/inspect_images.h"
#include "data/images/tar_members.h"
#include "runtime/base/json.h"
#include "runtime/nn/batch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct ImageParts {
  Names training, validation;
};

ImageParts image_parts(const Names& names) {
  std::error_code ignored;
  const auto below = [&](const char* split) {
    const std::string path = (fs::path(names.front()) / split).string();
    return names.size() == 1 && fs::is_directory(path, ignored) ? Names{path} : Names{};
  };
  const Names training = below("train");
  if (training.empty()) return {names, {}};
  const Names validation = below("val");
  return {training, validation.empty() ? below("validation") : validation};
}

// The field of an object that is a label by its name, else any whole number.
std::string label_field(const std::string& text) {
  const auto object = json_or_discarded(text);
  std::string found;
  if (!object.is_object()) return found;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number_unsigned()) continue;
    if (found.empty() || (sounds_like_label(name) && !sounds_like_label(found))) found = name;
  }
  return found;
}

// In the order cls, json, txt. "": nothing looks like a label.
std::string guessed_label(const std::string& archive) {
  constexpr int members_looked_at = 64;
  constexpr std::uint64_t most_bytes = 1 << 20;
  const FileDescriptor file = open_regular_file(archive, ExitCode::data);
  TarMembers members(file, archive, regular_file_size(file, archive, ExitCode::data));
  std::string json, text;
  for (int i = 0; i < members_looked_at; ++i) {
    const auto member = members.next();
    if (!member) break;
    const std::string& name = member->name;
    if (name.ends_with(".cls")) return "cls";
    if (name.ends_with(".txt")) text = "txt";
    if (!json.empty() || !name.ends_with(".json") || member->bytes > most_bytes) continue;
    json = label_field(members.content(*member, most_bytes));
  }
  return json.empty() ? text : "json:" + json;
}

// A side that most images reach.
std::int64_t side_for(std::vector<ImageSize> sizes) {
  constexpr std::array<std::int64_t, 9> sides{224, 192, 160, 128, 96, 64, 32, 16, 8};
  if (sizes.empty()) return sides.front();
  const auto shorter = [](const ImageSize& size) { return std::min(size.height, size.width); };
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::ranges::nth_element(sizes, middle, {}, shorter);
  const auto found =
      std::ranges::find_if(sides, [&](std::int64_t side) { return side <= shorter(*middle); });
  return found == sides.end() ? sides.back() : *found;
}

// Over pixels in 0..1, per channel, of evenly spread images at the model's size.
struct Colours {
  std::array<double, 3> mean{}, deviation{};
  std::int64_t images = 0, damaged = 0;
};

Colours colours_of(const ImageFilesDataset& data) {
  constexpr std::int64_t most = 64;
  constexpr double white = 255;
  std::vector<std::uint8_t> pixels(data.layout().input_bytes());
  std::array<double, 3> sums{}, squares{};
  Colours found;
  const std::int64_t count = std::min(most, data.size());
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t label = 0;
    data.read(i * data.size() / count, std::as_writable_bytes(std::span(pixels)), {&label, 1});
    if (label == ignored_target) {
      ++found.damaged;
      continue;
    }
    ++found.images;
    for (std::size_t at = 0; at < pixels.size(); ++at) {
      sums[at % 3] += pixels[at] / white;
      squares[at % 3] += pixels[at] / white * (pixels[at] / white);
    }
  }
  const double total =
      std::max(1.0, static_cast<double>(found.images) * static_cast<double>(pixels.size() / 3));
  for (std::size_t c = 0; c < 3; ++c) {
    found.mean[c] = sums[c] / total;
    const double deviation =
        std::sqrt(std::max(0.0, squares[c] / total - found.mean[c] * found.mean[c]));
    found.deviation[c] = deviation > 0 ? deviation : 1;
  }
  return found;
}

std::int64_t classes_of(const ImageFilesDataset& data) {
  if (!data.classes().empty()) return static_cast<std::int64_t>(data.classes().size());
  std::int32_t most = 0;
  for (const ImageIndex& index : data.indexes()) {
    for (const StoredImage& image : index.images)
      most = std::max(most, image.label);
  }
  return most + 1;
}

std::string data_text(const ImageParts& parts, const std::string& label, const SeenImages& seen,
                      std::size_t wrong_elsewhere) {
  const Colours colours = colours_of(*seen.data);
  const std::size_t wrong = seen.problems.size() + wrong_elsewhere;
  std::string text = fmt::format("data:\n  images: {}\n", yaml_list(parts.training));
  if (!parts.validation.empty())
    text += fmt::format("  validation_images: {}\n", yaml_list(parts.validation));
  if (seen.data->classes().empty() && label != "cls")
    text += fmt::format("  label: {}\n", yaml_text(label));
  if (wrong > 0 || colours.damaged > 0) {
    text += fmt::format(
        "  damaged: skip    # {} cannot be samples, and of {} images checked {} do not decode; for "
        "all: trireme data inspect --verify\n",
        wrong, colours.images + colours.damaged, colours.damaged);
  }
  return text + fmt::format(
                    "  flip: true\n  mean: [{:.4g}]    # of {} images, cropped in their centre\n"
                    "  std: [{:.4g}]\n",
                    fmt::join(colours.mean, ", "), colours.images,
                    fmt::join(colours.deviation, ", "));
}

}  // namespace

Description describe_images(const DataPlace& place) {
  const ImageParts parts = image_parts(place.names);
  std::string label = place.label;
  const ImageSources sources = find_images(parts.training);
  if (label.empty() && sources.classes.empty()) label = guessed_label(sources.paths.front());
  if (label.empty()) label = "cls";
  ImageOptions options{
      .source = {.images = parts.training, .label = label}, .height = 1, .width = 1};
  options.damaged = Damaged::skip;
  constexpr std::int64_t most = 64;
  SeenImages seen = see_images(options);
  const std::int64_t side = side_for(some_sizes(*seen.data, most));
  options.height = options.width = side;
  seen.data =
      std::make_unique<ImageFilesDataset>(seen.data->indexes(), seen.data->classes(), options);
  std::int64_t classes = classes_of(*seen.data);
  std::size_t wrong_elsewhere = 0;
  if (!parts.validation.empty()) {
    options.source.images = parts.validation;
    const SeenImages others = see_images(options);
    classes = std::max(classes, classes_of(*others.data));
    wrong_elsewhere = others.problems.size();
  }
  std::string text = fmt::format(
      "# {} images in {} {}; labels {}\n", seen.data->size(), seen.data->indexes().size(),
      sources.classes.empty() ? "archives" : "class folders",
      sources.classes.empty() ? fmt::format("0 to {} at most", classes - 1)
                              : "by the names of the folders");
  for (const std::string& problem :
       std::span(seen.problems).first(std::min<std::size_t>(seen.problems.size(), 3)))
    text += fmt::format("# {}\n", problem);
  return {
      text +
      model_text(side, side, 3, fmt::format("classes: {}", std::max<std::int64_t>(classes, 2))) +
      data_text(parts, label, seen, wrong_elsewhere) + training_text(seen.data->size())};
}

}  // namespace trireme
