// SPDX-License-Identifier: Apache-2.0
// Image archives, their stored index, and images. The first bytes choose the kind of input.
#include <algorithm>
#include <cstring>
#include <random>

#include "data/images/resample.h"
#include "data/images/tar_members.h"
#include "data/images/tar_samples.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

constexpr std::uint64_t most_pixels = 1 << 16;
constexpr std::string_view index_mark = "TIMGIDX1";
constexpr std::size_t block_bytes = 512;

// As in training and evaluation, and whole.
void show(std::span<const std::byte> image) {
  constexpr std::int64_t side = 8;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side * side * 3));
  for (const bool crop : {false, true}) {
    fuzz::accepts(ExitCode::data, [&] {
      View view;
      const DecodedPart part = decode_part(image, 3, most_pixels, [&](const ImageSize& size) {
        view = crop ? view_of_region(random_crop(size, {}, 1, 2, 3), side, side)
                    : view_of_centre(size, {side, side}, side, side);
        return PartWanted{needed_for(view), reduction_for(view)};
      });
      resample(part, view, pixels);
    });
  }
  fuzz::accepts(ExitCode::data, [&] {
    const Pixels whole = decode_image(image, 1, most_pixels, "whole");
    fuzz::require(whole.data.size() == static_cast<std::size_t>(whole.height * whole.width),
                  "pixels of an image");
  });
}

void read_index(std::string_view bytes) {
  const ImageIndex index = parse_image_index(bytes);
  fuzz::require(parse_image_index(bytes_of(index)) == index, "an index that comes back as it was");
  for (std::size_t i = 0; index.folder && i < index.images.size(); ++i)
    fuzz::require(!index.name_of(i).empty(), "names of images");
}

void read_archive(std::string_view bytes) {
  static const fuzz::MemoryFile file;
  file.set(bytes);
  for (const char* const label : {"cls", "json:label"}) {
    fuzz::accepts(ExitCode::data, [&] {
      const ImageIndex index = index_of_archive(file.path(), label_rule(label));
      read_index(bytes_of(index));
      for (const StoredImage& image : index.images) {
        static_cast<void>(member_at(file.path(), image.place));
        show(std::as_bytes(std::span(bytes.substr(image.place, image.bytes))));
      }
    });
  }
}

// Makes the checksums of headers right again.
void repair_headers(std::string& archive) {
  constexpr std::size_t magic = 257, sum_at = 148, sum_bytes = 8;
  for (std::size_t at = 0; at + block_bytes <= archive.size(); at += block_bytes) {
    if (archive.compare(at + magic, 5, "ustar") != 0) continue;
    std::fill_n(archive.begin() + static_cast<std::ptrdiff_t>(at + sum_at), sum_bytes, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < block_bytes; ++i)
      sum += static_cast<unsigned char>(archive[at + i]);
    archive.replace(at + sum_at, 7, fmt::format("{:06o}", sum) + '\0');
  }
}

}  // namespace

// Changes one or two blocks of an archive, mostly headers.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_bytes, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t limit) { return random() % std::max<std::size_t>(limit, 1); };
  if (size < 2 * block_bytes || below(8) == 0) return LLVMFuzzerMutate(data, size, max_bytes);
  std::string file(reinterpret_cast<const char*>(data), size);
  for (std::size_t edits = 1 + below(2); edits > 0; --edits) {
    const std::size_t block = below(size / block_bytes) * block_bytes;
    constexpr std::array<std::pair<std::size_t, std::size_t>, 5> fields{
        {{0, 100}, {124, 12}, {156, 1}, {257, 8}, {345, 155}}};  // name, size, type, magic, prefix
    const auto [first, bytes] = below(4) == 0 ? std::pair<std::size_t, std::size_t>{0, block_bytes}
                                              : fields[below(fields.size())];
    std::vector<std::uint8_t> part(
        file.begin() + static_cast<std::ptrdiff_t>(block + first),
        file.begin() + static_cast<std::ptrdiff_t>(block + first + bytes));
    LLVMFuzzerMutate(part.data(), part.size(), part.size());
    std::memcpy(file.data() + block + first, part.data(), part.size());
  }
  if (below(4) == 0) file.resize(below(file.size()));
  if (below(8) > 0) repair_headers(file);
  std::memcpy(data, file.data(), file.size());
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (text.starts_with("\xff\xd8\xff") || text.starts_with("\x89PNG")) {
    show(std::as_bytes(std::span(text)));
  } else if (text.starts_with(index_mark)) {
    fuzz::accepts(ExitCode::data, [&] { read_index(text); });
  } else {
    read_archive(text);
  }
  return 0;
}
