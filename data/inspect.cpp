// SPDX-License-Identifier: Apache-2.0
#include "data/inspect.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "data/sets/image_dataset.h"
#include "data/sets/token_dataset.h"
#include "data/shard/shard_set.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::string counted(std::uint64_t count, std::string_view singular) {
  return fmt::format("{} {}{}", count, singular, count == 1 ? "" : "s");
}

std::string class_line(const std::vector<std::string>& all) {
  constexpr std::size_t limit = 20;
  const std::vector<std::string> shown(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(limit, all.size())));
  return fmt::format("  classes      {}: {}{}\n", all.size(), fmt::join(shown, ", "),
                     all.size() > limit ? ", ..." : "");
}

std::string describe_header(const ShardSet& set) {
  const ShardHeader& first = set.shards().front().header;
  std::string text = fmt::format("  kind         {}\n  dtype        {}\n", name_of(first.kind),
                                 stored_name(first.dtype));
  if (first.kind == DataKind::tokens) {
    std::uint64_t documents = 0;
    for (const Shard& shard : set.shards())
      documents += shard.header.documents - (shard.header.continues ? 1 : 0);
    // The first document began in another split, but part of it is here.
    if (first.continues) ++documents;
    text +=
        fmt::format("  tokens       {}\n  documents    {}\n  tokenizer    {}\n  vocabulary   {}\n",
                    set.elements(), documents, first.tokenizer, first.vocabulary);
    if (first.counted) {
      std::uint64_t counted = 0;
      for (const Shard& shard : set.shards())
        counted += *shard.header.counted;
      text += fmt::format(
          "  counted      {} ({:.1f} % of the tokens are targets, by /loss_mask)\n", counted,
          100.0 * static_cast<double>(counted) / static_cast<double>(set.elements()));
    }
    if (first.targets != TextTargets::none) {
      text += fmt::format("  targets      {}, {} to a {}; texts of up to {} tokens\n",
                          name_of(first.targets), first.target_width,
                          first.targets == TextTargets::token_classes ? "token" : "text",
                          first.longest);
      if (first.targets != TextTargets::values) text += class_line(first.classes);
    }
  } else {
    text += fmt::format(
        "  images       {}\n  shape        {} x {} x {} (height x width x channels)\n{}",
        set.elements(), first.height, first.width, first.channels, class_line(first.classes));
  }
  return text + fmt::format("  fingerprint  {:016x}\n", set.fingerprint());
}

std::string describe_shards(const ShardSet& set) {
  std::string text = "  shards\n";
  for (const Shard& shard : set.shards()) {
    const ShardHeader& header = shard.header;
    const std::string name = std::filesystem::path(shard.path).filename().string();
    const bool tokens = header.kind == DataKind::tokens;
    text += fmt::format("    {}  {}{}  {}  xxh3 {:016x}\n", name,
                        counted(header.count, tokens ? "token" : "image"),
                        tokens ? ", " + counted(header.documents, "document") +
                                     (header.continues ? " (first continued)" : "")
                               : std::string(),
                        megabytes(shard.file_bytes), header.payload_checksum);
  }
  return text;
}

// Control characters but line breaks and tabs would disturb the terminal.
std::string printable(std::uint8_t byte) {
  if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f))
    return std::string(1, static_cast<char>(byte));
  return fmt::format("\\x{:02x}", byte);
}

// The first `to.size()` ids, perhaps from several shards.
template <typename Token>
void read_ids(const ShardSet& set, std::span<std::uint32_t> to) {
  std::vector<Token> ids(to.size());
  for (std::size_t done = 0, which = 0; done < ids.size(); ++which) {
    const Shard& shard = set.shards()[which];
    const auto part = std::span(ids).subspan(
        done, std::min<std::uint64_t>(ids.size() - done, shard.header.count));
    set.read(which, 0, std::as_writable_bytes(part), {});
    if (largest<Token>(part) >= shard.header.vocabulary) refuse_ids<Token>(shard, 0, part);
    done += part.size();
  }
  std::copy(ids.begin(), ids.end(), to.begin());
}

std::string preview_tokens(const ShardSet& set, std::uint64_t wanted) {
  const ShardHeader& header = set.shards().front().header;
  std::vector<std::uint32_t> ids(std::min({wanted, set.elements(), longest_preview}));
  header.dtype == DType::u16 ? read_ids<std::uint16_t>(set, ids)
                             : read_ids<std::uint32_t>(set, ids);
  if (header.tokenizer != "bytes") return fmt::format("  preview\n    {}\n", fmt::join(ids, " "));
  std::string text = "  preview\n";
  for (const std::uint32_t id : ids)
    text += printable(static_cast<std::uint8_t>(id));
  return text + "\n";
}

std::string preview_images(ShardSet set, std::uint64_t wanted) {
  const std::vector<std::string> classes = set.shards().front().header.classes;
  const ImageDataset data(std::move(set));
  return preview_pictures(
      data, wanted, [&](std::int32_t label) { return classes[static_cast<std::size_t>(label)]; });
}

std::string inspect_dataset(const std::string& path, std::uint64_t preview) {
  ShardSet set(list_shards(path, ""));
  std::string text = path + "\n" + describe_header(set) + describe_shards(set);
  if (preview == 0) return text;
  const bool tokens = set.shards().front().header.kind == DataKind::tokens;
  return text + (tokens ? preview_tokens(set, preview) : preview_images(std::move(set), preview));
}

}  // namespace

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) * 1e-6);
}

std::string preview_pictures(const Dataset& data, std::uint64_t wanted,
                             const std::function<std::string(std::int32_t)>& class_of) {
  constexpr std::string_view ramp = " .:-=+*#%@";
  constexpr std::int64_t columns = 64;
  const Shape& shape = data.layout().inputs;  // (H, W, C)
  const std::int64_t height = shape[0], width = shape[1], channels = shape[2];
  const std::int64_t step = (width + columns - 1) / columns;
  std::vector<std::byte> pixels(data.layout().input_bytes());
  std::string text;
  const auto count = static_cast<std::int64_t>(std::min(wanted, longest_preview));
  for (std::int64_t i = 0; i < std::min(count, data.size()); ++i) {
    std::int32_t label = 0;
    data.read(i, pixels, {&label, 1});
    text += fmt::format("  image {}, class {} ({})\n", i, label, class_of(label));
    // Characters are about twice as high as wide.
    for (std::int64_t y = 0; y < height; y += 2 * step) {
      text += "    ";
      for (std::int64_t x = 0; x < width; x += step) {
        const auto level =
            static_cast<std::size_t>(pixels[static_cast<std::size_t>((y * width + x) * channels)]);
        text += ramp[level * ramp.size() / 256];
      }
      text += '\n';
    }
  }
  return text;
}

Description inspect_packed(const DataPlace& place) {
  Description found;
  try {
    for (const std::string& name : place.names) {
      for (const std::string& path : find_datasets(name))
        found.text += inspect_dataset(path, place.preview);
    }
  } catch (const Error& error) {
    found.problem = error.what();
  }
  return found;
}

}  // namespace trireme
