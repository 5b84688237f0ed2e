// SPDX-License-Identifier: Apache-2.0
#include "launch/exchange/hf_image_processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/fields/statistics.h"
#include "data/images/image_options.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr double byte_scale = 1.0 / 255;

bool flag(const Json& file, const char* key, bool otherwise) {
  const auto found = file.find(key);
  return found != file.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

// One number per channel, or `otherwise` for all if the key is missing.
std::vector<double> per_channel(const Json& file, const std::string& path, const char* key,
                                std::int64_t channels, double otherwise) {
  const auto found = file.find(key);
  if (found == file.end() || found->is_null())
    return std::vector<double>(static_cast<std::size_t>(channels), otherwise);
  const bool numbers = found->is_array() && std::ranges::all_of(*found, [](const Json& item) {
                         return item.is_number() && std::isfinite(item.get<double>());
                       });
  if (!numbers || std::ssize(*found) != channels)
    fail(ExitCode::config, "{}: {} is {}, not {} numbers as the model's channels", path, key,
         found->dump(), channels);
  return found->get<std::vector<double>>();
}

}  // namespace

std::string preprocessor_text(const ModelTraits& traits, const DataConfig& data) {
  const std::int64_t side = std::min(traits.image_size, traits.image_width);
  // Packed images have been resized and cropped before.
  const std::int64_t resized = data.kind() != SourceKind::images ? side
                               : data.eval_resize > 0            ? data.eval_resize
                                                                 : centre_resize(side);
  const auto channels = static_cast<std::size_t>(traits.channels);
  std::vector<double> mean = data.mean, deviation = data.std;
  // Values of any range, of the model's size; an import knows of them before any data is named.
  const bool in_place = data.kind() == SourceKind::files || data.scaling != Scaling::none;
  if (data.scaling != Scaling::none) {
    const ChannelScale scale = load_scale(data);
    mean.assign(scale.subtract.begin(), scale.subtract.end());
    deviation.clear();
    for (const float factor : scale.multiply)
      deviation.push_back(1 / static_cast<double>(factor));
  }
  const auto or_all = [&](const std::vector<double>& values, double otherwise) {
    return values.empty() ? std::vector<double>(channels, otherwise) : values;
  };
  return fmt::format(
      R"({{
  "image_processor_type": "CLIPImageProcessor",
  "do_resize": {},
  "size": {{"shortest_edge": {}}},
  "resample": 2,
  "do_center_crop": {},
  "crop_size": {{"height": {}, "width": {}}},
  "do_convert_rgb": {},
  "do_rescale": {},
  "rescale_factor": {},
  "do_normalize": true,
  "image_mean": [{}],
  "image_std": [{}]
}}
)",
      !in_place, resized, !in_place, traits.image_size, traits.image_width,
      traits.channels == 3 && !in_place, !in_place, byte_scale, fmt::join(or_all(mean, 0), ", "),
      fmt::join(or_all(deviation, 1), ", "));
}

std::string read_preprocessor(const std::string& directory, const ModelTraits& traits) {
  const std::string path = directory + "/" + preprocessor_file;
  const auto text = read_file_if_exists(path, std::uint64_t{1} << 24, ExitCode::checkpoint);
  if (!text || traits.input != InputKind::images) return {};
  const Json file = json_or_discarded(*text);
  if (!file.is_object()) fail(ExitCode::checkpoint, "{}: is not a JSON object", path);
  const auto factor = file.find("rescale_factor");
  const bool scaled = factor == file.end() ||
                      (factor->is_number() && std::abs(factor->get<double>() - byte_scale) < 1e-9);
  const bool rescaled = flag(file, "do_rescale", true), whole = flag(file, "do_normalize", true);
  if (rescaled && !scaled)
    fail(ExitCode::config,
         "{}: pixels are not divided by 255 (rescale_factor), and data.mean and data.std are of "
         "pixels in 0..1; remove the file, and set both in the config",
         path);
  if (rescaled && !whole) return {};
  const Json normalised = whole ? file : Json::object();
  const auto mean = per_channel(normalised, path, "image_mean", traits.channels, 0);
  const auto deviation = per_channel(normalised, path, "image_std", traits.channels, 1);
  if (const auto bad = std::ranges::find_if(deviation, [](double value) { return value <= 0; });
      bad != deviation.end())
    fail(ExitCode::config, "{}: image_std has {}, which divides no pixel; use more than 0", path,
         *bad);
  return fmt::format("data: {{{}mean: [{}], std: [{}]}}\n", rescaled ? "" : "scaling: mean_std, ",
                     fmt::join(mean, ", "), fmt::join(deviation, ", "));
}

}  // namespace trireme
