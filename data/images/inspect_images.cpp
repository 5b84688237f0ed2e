// SPDX-License-Identifier: Apache-2.0
#include "data/images/inspect_images.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "data/files/parallel.h"
#include "data/inspect.h"

namespace trireme {
namespace {

// The first of many.
std::string lines_of(std::string_view title, const std::vector<std::string>& lines) {
  constexpr std::size_t most = 20;
  if (lines.empty()) return "";
  std::string text = fmt::format("  {:<12} {}\n", title, lines.size());
  for (std::size_t i = 0; i < std::min(most, lines.size()); ++i)
    text += fmt::format("    {}\n", lines[i]);
  return text + (lines.size() > most ? "    ...\n" : "");
}

std::string describe_labels(const ImageFilesDataset& data) {
  std::map<std::int32_t, std::uint64_t> counts;
  for (const ImageIndex& index : data.indexes()) {
    for (const StoredImage& image : index.images)
      ++counts[image.label];
  }
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const std::string each =
      fmt::format("{} to {} images each", std::ranges::min_element(counts, fewer)->second,
                  std::ranges::max_element(counts, fewer)->second);
  const std::vector<std::string>& classes = data.classes();
  if (classes.empty()) {
    return fmt::format("  labels       {} different, {} to {}; {}\n", counts.size(),
                       counts.begin()->first, counts.rbegin()->first, each);
  }
  constexpr std::size_t limit = 20;
  const auto shown = std::span(classes).first(std::min(limit, classes.size()));
  return fmt::format("  classes      {}: {}{}; {}\n", classes.size(), fmt::join(shown, ", "),
                     classes.size() > limit ? ", ..." : "", each);
}

std::string describe_sizes(const ImageFilesDataset& data) {
  constexpr std::int64_t most = 64;
  const std::vector<ImageSize> sizes = some_sizes(data, most);
  if (sizes.empty()) return "  sizes        none of the checked images decodes\n";
  const auto range = [&](std::int64_t ImageSize::*side) {
    const auto [low, high] = std::ranges::minmax(sizes, {}, side);
    return fmt::format("{} to {}", low.*side, high.*side);
  };
  return fmt::format("  sizes        height {}, width {} (of {} images)\n",
                     range(&ImageSize::height), range(&ImageSize::width), sizes.size());
}

}  // namespace

SeenImages see_images(const ImageOptions& options) {
  const ImageScan scan{find_images(options.source.images), label_rule(options.source.label)};
  std::vector<ImageIndex> indexes = scan_images(scan, scan.sources.paths, usable_cores());
  SeenImages seen;
  bool any = false;
  for (ImageIndex& index : indexes) {
    any = any || !index.images.empty();
    for (std::string& problem : index.problems)
      seen.problems.push_back(std::move(problem));
    index.problems.clear();
  }
  if (!any && !seen.problems.empty()) fail(ExitCode::data, "{}", seen.problems.front());
  seen.data =
      std::make_unique<ImageFilesDataset>(std::move(indexes), scan.sources.classes, options);
  return seen;
}

std::vector<ImageSize> some_sizes(const ImageFilesDataset& data, std::int64_t most) {
  std::vector<ImageSize> sizes;
  std::vector<std::byte> stored;
  const std::int64_t count = std::min(most, data.size());
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      data.read_stored(i * data.size() / count, stored);
      ImageSize size;
      static_cast<void>(
          decode_part(stored, 3, ImageOptions{}.max_pixels(), [&](const ImageSize& of) {
            size = of;
            return PartWanted{{0, 0, 1, 1}, 8};
          }));
      sizes.push_back(size);
    } catch (const DamagedImage&) {  // `trireme data inspect --verify` is for that
    }
  }
  return sizes;
}

Description inspect_images(const DataPlace& place) {
  constexpr std::int64_t side = 64;
  ImageOptions options{
      .source = {.images = place.names, .eval_resize = side}, .height = side, .width = side};
  if (!place.label.empty()) options.source.label = place.label;
  options.damaged = Damaged::skip;
  const SeenImages seen = see_images(options);
  const ImageFilesDataset& data = *seen.data;
  const bool folders = !data.classes().empty();
  std::uint64_t bytes = 0;
  std::string sources;
  std::vector<std::string> notes;
  for (const ImageIndex& index : data.indexes()) {
    bytes += index.image_bytes();
    sources += fmt::format(
        "    {}  {} image{}  {}\n", std::filesystem::path(index.path).filename().string(),
        index.images.size(), index.images.size() == 1 ? "" : "s", megabytes(index.image_bytes()));
    notes.insert(notes.end(), index.notes.begin(), index.notes.end());
  }
  std::string text = fmt::format(
      "{}\n  kind         images in place, in {} {}\n  images       {}, {}\n",
      fmt::join(place.names, ", "), data.indexes().size(),
      folders ? "class folder(s)" : "archive(s) of WebDataset", data.size(), megabytes(bytes));
  text += describe_labels(data) + describe_sizes(data);
  text += fmt::format("  fingerprint  {:016x}\n", data.fingerprint());
  text += lines_of("wrong", seen.problems) + lines_of("left out", notes);
  text += fmt::format("  {}\n{}", folders ? "class folders" : "archives", sources);
  if (place.preview == 0) return {text};
  return {text + preview_pictures(data, place.preview, [&](std::int32_t label) {
            if (label < 0) return std::string("does not decode");
            return folders ? data.classes()[static_cast<std::size_t>(label)]
                           : fmt::format("{}", label);
          })};
}

}  // namespace trireme
