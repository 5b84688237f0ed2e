// SPDX-License-Identifier: Apache-2.0
#include "data/images/tar_samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "data/images/tar_members.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

struct Part {
  std::string key, extension;  // lower case
};

// Empty key: not part of a sample.
Part part_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == name.npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base) return {};
  std::string extension = name.substr(dot + 1);
  std::ranges::transform(extension, extension.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return {name.substr(0, dot), extension};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
  return text.substr(0, text.find_last_not_of(white) + 1);
}

std::optional<std::int32_t> number_in(std::string_view text) {
  std::int32_t value = 0;
  text = trimmed(text);
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<std::int32_t> number_at(std::string_view text, const std::string& field) {
  const auto object = json_or_discarded(text);
  if (!object.is_object() || !object.contains(field)) return std::nullopt;
  const auto& value = object.at(field);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT32_MAX) return std::nullopt;
  return static_cast<std::int32_t>(value.get<std::uint64_t>());
}

class ArchiveIndexer {
 public:
  ArchiveIndexer(const std::string& path, const LabelRule& rule)
      : rule_(rule),
        file_(open_regular_file(path, ExitCode::data)),
        members_(file_, path, regular_file_size(file_, path, ExitCode::data)) {
    index_.path = path;
    index_.state = state_of_file(file_, path);
  }

  ImageIndex run() {
    std::size_t taken = 0;
    try {
      while (const auto member = members_.next()) {
        take(*member);
        ++taken;
      }
    } catch (const BrokenTar& error) {
      if (taken == 0) throw;
      index_.problems.emplace_back(error.what());
    }
    for (const std::string* const key : order_)
      settle(*key, samples_.at(*key));
    if (index_.images.empty() && index_.problems.empty())
      index_.notes.push_back(fmt::format("{}: holds no images", index_.path));
    if (state_of_file(file_, index_.path) != index_.state)
      fail(ExitCode::data, "{}: changed while it was read", index_.path);
    index_.digest = members_.digest();
    return std::move(index_);
  }

 private:
  struct Sample {
    std::optional<TarMember> image;
    bool has_label = false;
    std::optional<std::int32_t> label;
  };

  void problem(const std::string& member, std::string_view reason) {
    index_.problems.push_back(fmt::format("{}: {}: {}", index_.path, shown_name(member), reason));
  }

  void take(const TarMember& member) {
    const auto [key, extension] = part_of(member.name);
    if (key.empty()) return;
    if (is_other_image_name(extension))
      return problem(member.name, "only JPEG and PNG images can be read");
    const bool image = is_image_name(extension), label = extension == rule_.extension;
    if (!image && !label) return;
    const auto [place, fresh] = samples_.try_emplace(key);
    if (fresh) order_.push_back(&place->first);
    Sample& sample = place->second;
    if (image ? sample.image.has_value() : sample.has_label) {
      return problem(member.name, fmt::format("its sample {} already has {}", shown_name(key),
                                              image ? shown_name(sample.image->name) : "a label"));
    }
    if (image) {
      sample.image = member;
    } else {
      take_label(member, sample);
    }
  }

  void take_label(const TarMember& member, Sample& sample) {
    constexpr std::uint64_t most_label_bytes = 1 << 20;
    sample.has_label = true;
    if (member.bytes > most_label_bytes)
      return problem(member.name, "a label of more than a megabyte");
    const std::string text = members_.content(member, most_label_bytes);
    sample.label = rule_.field.empty() ? number_in(text) : number_at(text, rule_.field);
    if (sample.label) return;
    constexpr std::size_t shown = 40;
    problem(member.name,
            rule_.field.empty()
                ? fmt::format("'{}' is not a label, a whole number from 0 on",
                              shown_name(trimmed(text).substr(0, shown)))
                : fmt::format("has no whole number from 0 on as its field '{}'", rule_.field));
  }

  void settle(const std::string& key, const Sample& sample) {
    if (!sample.image) return problem(key, "has a label, but no image (.jpg, .jpeg, .png)");
    const TarMember& image = *sample.image;
    if (!sample.has_label)
      return problem(
          image.name,
          fmt::format("there is no label {}.{} for it; data.label selects the member with labels",
                      shown_name(key), rule_.extension));
    if (!sample.label) return;  // already a problem
    if (image.bytes == 0) return problem(image.name, "is empty");
    if (image.bytes > most_image_bytes) return problem(image.name, "is larger than a gigabyte");
    index_.images.push_back({image.offset, static_cast<std::uint32_t>(image.bytes), *sample.label});
  }

  LabelRule rule_;
  FileDescriptor file_;
  TarMembers members_;
  ImageIndex index_;
  std::unordered_map<std::string, Sample> samples_;
  std::vector<const std::string*> order_;  // keys in order of first occurrence
};

}  // namespace

LabelRule label_rule(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon), colon == text.npos ? "" : text.substr(colon + 1)};
}

bool is_image_name(std::string_view extension) {
  return extension == "jpg" || extension == "jpeg" || extension == "png";
}

bool is_other_image_name(std::string_view extension) {
  constexpr std::array<std::string_view, 12> others{"webp", "gif", "bmp", "tif",  "tiff", "ppm",
                                                    "pgm",  "jp2", "jxl", "avif", "heic", "pbm"};
  return std::ranges::find(others, extension) != others.end();
}

ImageIndex index_of_archive(const std::string& path, const LabelRule& rule) {
  return ArchiveIndexer(path, rule).run();
}

std::string member_at(const std::string& path, std::uint64_t place) {
  try {
    const FileDescriptor file = open_regular_file(path, ExitCode::data);
    TarMembers members(file, path, regular_file_size(file, path, ExitCode::data));
    while (const auto member = members.next()) {
      if (member->offset == place) return shown_name(member->name);
    }
  } catch (const Error&) {  // a changed file: messages only have the offset
  }
  return fmt::format("the member at byte {}", place);
}

}  // namespace trireme
