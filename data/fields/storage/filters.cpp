// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/filters.h"

#include <blosc.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "data/fields/storage/filter_steps.h"
#include "data/fields/storage/inflate.h"
#include "data/hdf5/filter_plugins.h"
#include "runtime/base/error.h"

extern "C" {
#include <liblzf/lzf.h>
}

namespace trireme {
namespace {

// Ids in the registry of HDF5 filters.
enum FilterId : std::uint32_t {
  deflate = 1,
  shuffle = 2,
  fletcher32 = 3,
  szip = 4,
  nbit = 5,
  scale_offset = 6,
  lzf = 32000,
  blosc = 32001,
  lz4 = 32004,
  bitshuffle = 32008,
  zfp = 32013,
  zstd = 32015,
  blosc2 = 32026
};

[[noreturn]] void damaged(std::string_view filter, std::string_view why) {
  fail(ExitCode::data, "{}: {}", filter, why);
}

// Each decodes `stored`, writes at most to.size() bytes and returns their number.

std::size_t skip(std::span<const std::uint32_t> bytes, std::span<const std::byte> from,
                 std::span<std::byte> to) {
  if (bytes.size() != 1 || bytes[0] > from.size() || from.size() - bytes[0] > to.size())
    damaged("numpy", "the array is not behind its header");
  std::ranges::copy(from.subspan(bytes[0]), to.begin());
  return from.size() - bytes[0];
}

std::size_t unlzf(std::span<const std::byte> stored, std::span<std::byte> to) {
  const unsigned written = lzf_decompress(stored.data(), static_cast<unsigned>(stored.size()),
                                          to.data(), static_cast<unsigned>(to.size()));
  if (written == 0) damaged("lzf", "it is not a valid stream, or longer than the chunk");
  return written;
}

std::size_t unzstd(std::span<const std::byte> stored, std::span<std::byte> to) {
  const std::size_t written = ZSTD_decompress(to.data(), to.size(), stored.data(), stored.size());
  if (ZSTD_isError(written) != 0) damaged("zstd", ZSTD_getErrorName(written));
  return written;
}

std::size_t unblosc(std::span<const std::byte> stored, std::span<std::byte> to) {
  std::size_t decoded = 0;
  if (blosc_cbuffer_validate(stored.data(), stored.size(), &decoded) < 0)
    damaged("blosc", "its header is damaged");
  if (decoded > to.size()) damaged("blosc", "the result is larger than the chunk");
  const int written = blosc_decompress_ctx(stored.data(), to.data(), to.size(), 1);
  if (written < 0 || static_cast<std::size_t>(written) != decoded)
    damaged("blosc", "it is not a valid stream");
  return decoded;
}

void unlz4_block(std::span<const std::byte> stored, std::span<std::byte> to,
                 std::string_view filter) {
  if (stored.size() > to.size() + to.size() / 128 + 64 ||
      LZ4_decompress_safe(reinterpret_cast<const char*>(stored.data()),
                          reinterpret_cast<char*>(to.data()), static_cast<int>(stored.size()),
                          static_cast<int>(to.size())) != static_cast<int>(to.size()))
    damaged(filter, "a block is not a valid stream");
}

// 8 bytes of size and 4 of block size, big-endian; then blocks with a size prefix. Blocks that did
// not shrink are stored unchanged.
std::size_t unlz4(std::span<const std::byte> stored, std::span<std::byte> to) {
  BigEndianReader reader(stored, "lz4");
  const std::uint64_t whole = reader.number(8);
  const std::uint64_t block = reader.number(4);
  if (whole > to.size()) damaged("lz4", "the result is larger than the chunk");
  if (block == 0 && whole > 0) damaged("lz4", "its blocks are empty");
  for (std::uint64_t done = 0; done < whole;) {
    const auto wanted = static_cast<std::size_t>(std::min(block, whole - done));
    const std::span<const std::byte> part = reader.bytes(reader.number(4));
    const std::span<std::byte> target = to.subspan(done, wanted);
    if (part.size() == wanted) {
      std::ranges::copy(part, target.begin());
    } else {
      unlz4_block(part, target, "lz4");
    }
    done += wanted;
  }
  return static_cast<std::size_t>(whole);
}

// `values`: two of a version, bytes of an element, elements of a block or 0, and 2 for lz4, 3 for
// zstd or 0. Compressed: 8 bytes of size, 4 of block size, big-endian; then blocks with a size
// prefix. At the end elements that are no multiple of 8 are stored as they are.
std::size_t unbitshuffle(std::span<const std::uint32_t> values, std::span<const std::byte> stored,
                         std::span<std::byte> to) {
  constexpr std::string_view name = "bitshuffle";
  constexpr std::size_t block_bytes = 8192, least = 128;  // without a block size
  if (values.size() < 3 || values[2] == 0 || values[2] > 4096)
    damaged(name, "its parameters are unknown");
  const std::size_t element = values[2];
  const std::uint32_t compression = values.size() > 4 ? values[4] : 0;
  if (compression != 0 && compression != 2 && compression != 3)
    damaged(name, fmt::format("compression {} is not supported", compression));
  BigEndianReader reader(stored, name);
  const std::uint64_t whole = compression == 0 ? stored.size() : reader.number(8);
  std::uint64_t block = values.size() > 3 ? values[3] : 0;
  if (compression != 0) block = reader.number(4) / element;
  if (block == 0) block = std::max(block_bytes / element / 8 * 8, least);
  if (whole > to.size()) damaged(name, "the result is larger than the chunk");
  if (block % 8 != 0) damaged(name, "its blocks are not multiples of 8 elements");
  thread_local std::vector<std::byte> shuffled;
  const std::uint64_t end = whole / (element * 8) * (element * 8);
  std::size_t done = 0;
  for (; done < end;) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(block * element, end - done));
    std::span<const std::byte> part;
    if (compression == 0) {
      part = reader.bytes(bytes);
    } else {
      if (shuffled.size() < bytes) shuffled.resize(bytes);
      const std::span target = std::span(shuffled).first(bytes);
      const std::span<const std::byte> packed = reader.bytes(reader.number(4));
      if (compression == 2) unlz4_block(packed, target, name);
      if (compression == 3 && unzstd(packed, target) != bytes) damaged(name, "a block is short");
      part = target;
    }
    unshuffle_bits(element, part, to.subspan(done, bytes));
    done += bytes;
  }
  std::ranges::copy(reader.bytes(whole - done), to.subspan(done).begin());
  return static_cast<std::size_t>(whole);
}

// Room for a chunk after a filter, as compressors may expand it.
std::size_t room_for(std::size_t chunk_bytes) {
  constexpr std::size_t slack = 65536;
  return chunk_bytes + chunk_bytes / 8 + slack;
}

std::string_view name_of_filter(const FilterStep& step) {
  constexpr std::array<std::pair<std::uint32_t, std::string_view>, 15> names{
      {{deflate, "deflate"},
       {raw_deflate_filter, "deflate"},
       {skip_filter, "numpy"},
       {shuffle, "shuffle"},
       {fletcher32, "fletcher32"},
       {szip, "szip"},
       {nbit, "n-bit"},
       {scale_offset, "scale-offset"},
       {lzf, "lzf"},
       {blosc, "blosc"},
       {lz4, "lz4"},
       {bitshuffle, "bitshuffle"},
       {zfp, "zfp"},
       {zstd, "zstd"},
       {blosc2, "blosc2"}}};
  for (const auto& [id, name] : names) {
    if (id == step.id) return name;
  }
  return step.name.empty() ? "without a name" : std::string_view(step.name);
}

}  // namespace

struct ChunkDecoder::Scratch {
  Inflater inflater;
  std::array<std::vector<std::byte>, 2> buffers;
  std::vector<std::byte> lines;  // for szip

  std::size_t undo(const FilterStep& step, std::span<const std::byte> from,
                   std::span<std::byte> to) {
    switch (step.id) {
      case deflate:
        return inflater.zlib(from, to);
      case raw_deflate_filter:
        return inflater.raw(from, to);
      case skip_filter:
        return skip(step.values, from, to);
      case shuffle:
        return unshuffle(step.values.empty() ? 1 : step.values[0], from, to);
      case fletcher32:
        return check_fletcher32(from, to);
      case szip:
        return unszip(step.values, from, to, lines);
      case lzf:
        return unlzf(from, to);
      case zstd:
        return unzstd(from, to);
      case blosc:
        return unblosc(from, to);
      case lz4:
        return unlz4(from, to);
      case bitshuffle:
        return unbitshuffle(step.values, from, to);
      default:
        return undo_by_plugin(step.id, step.values, from, to);
    }
  }
};

std::string filter_name(const FilterStep& step) {
  return std::string(name_of_filter(step));
}

void require_known_filters(const std::string& subject, const std::vector<FilterStep>& filters) {
  constexpr std::array known{std::uint32_t{deflate},    std::uint32_t{shuffle},
                             std::uint32_t{fletcher32}, std::uint32_t{szip},
                             std::uint32_t{lzf},        std::uint32_t{zstd},
                             std::uint32_t{blosc},      std::uint32_t{lz4},
                             std::uint32_t{bitshuffle}, skip_filter,
                             raw_deflate_filter};
  for (const FilterStep& step : filters) {
    if (std::ranges::find(known, step.id) != known.end() || has_filter_plugin(step.id)) continue;
    const std::string filter = fmt::format("{}: its chunks use the filter {} ({})", subject,
                                           step.id, name_of_filter(step));
    if (step.id == nbit || step.id == scale_offset) {
      fail(ExitCode::data,
           "{}, which only the HDF5 library can decode, with one thread at a time; rewrite the "
           "file with h5repack -f NONE IN OUT, or -f GZIP=4",
           filter);
    }
    fail(ExitCode::data,
         "{}, which needs a library of this build (deflate, shuffle, fletcher32, szip, lzf, zstd, "
         "blosc, lz4, bitshuffle) or a plugin in HDF5_PLUGIN_PATH; install a plugin (apt-get "
         "install "
         "hdf5-filter-plugin, or pip install hdf5plugin), or rewrite the file with h5repack -f "
         "GZIP=4 IN OUT",
         filter);
  }
}

bool ends_in_shuffle(const std::vector<FilterStep>& filters, std::uint32_t skipped,
                     std::size_t element_bytes) {
  return !filters.empty() && filters.front().id == shuffle && (skipped & 1U) == 0 &&
         filters.front().values == std::vector{static_cast<std::uint32_t>(element_bytes)};
}

ChunkDecoder::ChunkDecoder() : scratch_(std::make_unique<Scratch>()) {}
ChunkDecoder::~ChunkDecoder() = default;

void ChunkDecoder::decode(const std::vector<FilterStep>& filters, std::uint32_t skipped,
                          std::span<const std::byte> stored, std::span<std::byte> to) {
  std::vector<std::size_t> applied;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if ((skipped >> i & 1U) == 0) applied.push_back(i);
  }
  std::span<const std::byte> from = stored;
  for (std::size_t left = applied.size(); left-- > 0;) {
    std::span<std::byte> target = to;
    // The last filter to undo writes to the target; earlier ones may yield more bytes.
    if (left > 0) {
      std::vector<std::byte>& buffer = scratch_->buffers[left % 2];
      if (buffer.size() < room_for(to.size())) buffer.resize(room_for(to.size()));
      target = buffer;
    }
    from = target.first(scratch_->undo(filters[applied[left]], from, target));
  }
  if (from.size() != to.size()) {
    fail(ExitCode::data, "it decodes to {} bytes, but a chunk has {}", from.size(), to.size());
  }
  if (applied.empty() && !to.empty()) std::memcpy(to.data(), from.data(), to.size());
}

}  // namespace trireme
