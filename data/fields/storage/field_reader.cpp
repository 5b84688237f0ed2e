// SPDX-License-Identifier: Apache-2.0
#include "data/fields/storage/field_reader.h"

#include <algorithm>
#include <cstring>

#include "data/fields/storage/filter_steps.h"
#include "data/fields/storage/filters.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Runs of elements that are contiguous in both of two arrays with the same axes.
struct Runs {
  std::size_t outer = 0;       // number of axes to iterate over
  std::uint64_t elements = 1;  // per run
};

// For a box of `count` inside an array of `inside`, copied into one of `target`.
Runs runs_of(std::size_t axes, const Extents& count, const Extents& inside, const Extents& target) {
  Runs runs{.outer = axes};
  while (runs.outer > 0) {
    const std::size_t axis = --runs.outer;
    runs.elements *= count[axis];
    if (count[axis] != inside[axis] || count[axis] != target[axis]) break;
  }
  return runs;
}

// Index of `at` in an array of `extents`.
std::uint64_t position(std::size_t axes, const Extents& at, const Extents& extents) {
  std::uint64_t place = 0;
  for (std::size_t i = 0; i < axes; ++i)
    place = place * extents[i] + at[i];
  return place;
}

// Copies boxes of one field into the caller's memory.
class BoxRead {
 public:
  BoxRead(OpenFiles& files, ChunkCache& cache, const FileIndex& owner, const Box& box,
          std::span<std::byte> to)
      : files_(files), cache_(cache), owner_(owner), target_(box.count), to_(to) {}

  // Reads `box` of `field` to `at` in the target.
  void read(const StoredField& field, const Box& box, const Extents& at) {
    if (!field.parts.empty()) return read_parts(field, box, at);
    if (!field.content.empty() || field.chunks.empty()) {
      Extents extents{};
      std::ranges::copy(field.extents, extents.begin());
      return copy(field, field.content.data(), extents, box.start, box.count, at);
    }
    read_chunks(field, box, at);
  }

 private:
  void read_chunks(const StoredField& field, const Box& box, const Extents& at) {
    const std::size_t axes = field.extents.size();
    Extents chunk{}, grid{}, first{}, last{};
    for (std::size_t i = 0; i < axes; ++i) {
      chunk[i] = field.chunk_extents[i];
      grid[i] = (field.extents[i] - 1) / chunk[i] + 1;
      first[i] = box.start[i] / chunk[i];
      last[i] = (box.start[i] + box.count[i] - 1) / chunk[i];
    }
    for (Extents now = first;;) {
      Extents in_chunk{}, in_target = at;
      Box part;
      for (std::size_t i = 0; i < axes; ++i) {
        const std::uint64_t begin = std::max(now[i] * chunk[i], box.start[i]);
        const std::uint64_t end = std::min((now[i] + 1) * chunk[i], box.start[i] + box.count[i]);
        in_chunk[i] = begin - now[i] * chunk[i];
        part.count[i] = end - begin;
        in_target[i] += begin - box.start[i];
      }
      part.start = in_chunk;
      read_chunk(field, position(axes, now, grid), chunk, part, in_target);
      std::size_t i = axes;
      while (i-- > 0) {
        if (++now[i] <= last[i]) break;
        now[i] = first[i];
      }
      if (i >= axes) return;  // wrapped around at the first axis, or no axes
    }
  }

  void read_chunk(const StoredField& field, std::uint64_t number, const Extents& extents,
                  const Box& part, const Extents& at) {
    const StoredChunk& chunk = field.chunks[static_cast<std::size_t>(number)];
    const std::size_t axes = field.extents.size();
    if (chunk.offset == never_written)
      return copy(field, nullptr, extents, part.start, part.count, at);
    if (field.filters.empty()) return read_plain(field, chunk, extents, part, at);
    const auto bytes = static_cast<std::size_t>(field.chunk_bytes());
    if (!is_all_of(field, number, part)) {
      const DecodedChunk decoded = cache_.get({&field, number}, [&] {
        std::vector<std::byte> memory(bytes);
        decode(field, number, memory);
        return memory;
      });
      return copy(field, decoded->data(), extents, part.start, part.count, at);
    }
    if (runs_of(axes, part.count, extents, target_).elements * field.type.bytes == bytes) {
      const auto place = static_cast<std::size_t>(position(axes, at, target_) * field.type.bytes);
      return decode(field, number, to_.subspan(place, bytes));
    }
    thread_local std::vector<std::byte> memory;
    if (memory.size() < bytes) memory.resize(bytes);
    const std::span decoded = std::span(memory).first(bytes);
    if (!ends_in_shuffle(field.filters, chunk.skipped, field.type.bytes)) {
      decode(field, number, decoded);
      return copy(field, memory.data(), extents, part.start, part.count, at);
    }
    // Unshuffles on the way to the target.
    decode(field, number, decoded, 1);
    walk(field, extents, part.start, part.count, at,
         [&](std::uint64_t from, std::size_t to, std::size_t run) {
           unshuffle_part(field.type.bytes, decoded, from / field.type.bytes, to_.subspan(to, run));
         });
  }

  // Whether `part` is all of a chunk inside the data set: then no other read needs the chunk.
  static bool is_all_of(const StoredField& field, std::uint64_t number, const Box& part) {
    for (std::size_t i = field.extents.size(); i-- > 0;) {
      const std::uint64_t width = field.chunk_extents[i];
      const std::uint64_t chunks = (field.extents[i] - 1) / width + 1;
      const std::uint64_t begin = number % chunks * width;
      number /= chunks;
      if (part.count[i] != std::min(width, field.extents[i] - begin)) return false;
    }
    return true;
  }

  // Without the filters of the mask `left`.
  void decode(const StoredField& field, std::uint64_t number, std::span<std::byte> to,
              std::uint32_t left = 0) {
    const StoredChunk& chunk = field.chunks[static_cast<std::size_t>(number)];
    thread_local ChunkDecoder decoder;
    thread_local std::vector<std::byte> stored;
    const auto bytes = static_cast<std::size_t>(chunk.bytes);
    if (stored.size() < bytes) stored.resize(bytes);
    const std::span from = std::span(stored).first(bytes);
    file_of(field).data.read(chunk.offset, from);
    try {
      decoder.decode(field.filters, chunk.skipped | left, from, to);
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      throw DamagedChunk(
          fmt::format("{}: {}: chunk {} ({} bytes from byte {} on) does not decode: {}",
                      path_of(field), field.name, number, chunk.bytes, chunk.offset, error.what()));
    }
  }

  // Of unfiltered chunks reads only what is requested.
  void read_plain(const StoredField& field, const StoredChunk& chunk, const Extents& extents,
                  const Box& part, const Extents& at) {
    const OpenFiles::File& file = file_of(field);
    walk(field, extents, part.start, part.count, at,
         [&](std::uint64_t from, std::size_t to, std::size_t bytes) {
           file.data.read(chunk.offset + from, to_.subspan(to, bytes));
         });
  }

  // From an array in memory, or the fill value if that is null.
  void copy(const StoredField& field, const std::byte* from, const Extents& extents,
            const Extents& start, const Extents& count, const Extents& at) {
    walk(field, extents, start, count, at,
         [&](std::uint64_t place, std::size_t to, std::size_t bytes) {
           std::byte* const target = to_.data() + to;
           if (from != nullptr) {
             std::memcpy(target, from + place, bytes);
           } else if (field.fill.empty()) {
             std::memset(target, 0, bytes);
           } else {
             for (std::size_t i = 0; i < bytes; i += field.fill.size())
               std::memcpy(target + i, field.fill.data(), field.fill.size());
           }
         });
  }

  // Calls `move(byte in the array, byte in the target, bytes)` for every run.
  template <typename Move>
  void walk(const StoredField& field, const Extents& extents, const Extents& start,
            const Extents& count, const Extents& at, Move&& move) const {
    const std::size_t axes = field.extents.size();
    const Runs runs = runs_of(axes, count, extents, target_);
    const std::uint64_t width = field.type.bytes;
    for (Extents step{};;) {
      Extents from = start, to = at;
      for (std::size_t i = 0; i < runs.outer; ++i) {
        from[i] += step[i];
        to[i] += step[i];
      }
      move(position(axes, from, extents) * width,
           static_cast<std::size_t>(position(axes, to, target_) * width),
           static_cast<std::size_t>(runs.elements * width));
      std::size_t i = runs.outer;
      while (i-- > 0) {
        if (++step[i] < count[i]) break;
        step[i] = 0;
      }
      if (i >= axes) return;
    }
  }

  void read_parts(const StoredField& field, const Box& box, const Extents& at) {
    const std::size_t axes = field.extents.size();
    // Elements without a source are the fill value.
    Extents extents{};
    std::ranges::copy(field.extents, extents.begin());
    copy(field, nullptr, extents, box.start, box.count, at);
    for (const StoredPart& part : field.parts) {
      Box inside;
      Extents to = at;
      bool empty = false;
      for (std::size_t i = 0; i < axes; ++i) {
        const std::uint64_t begin = std::max(box.start[i], part.start[i]);
        const std::uint64_t end =
            std::min(box.start[i] + box.count[i], part.start[i] + part.count[i]);
        empty = empty || begin >= end;
        inside.start[i] = begin - part.start[i] + part.from[i];
        inside.count[i] = end - begin;
        to[i] += begin - box.start[i];
      }
      if (!empty) read(part.field, inside, to);
    }
  }

  const std::string& path_of(const StoredField& field) const {
    return field.file.empty() ? owner_.path : field.file;
  }

  // Opened, or checked again, once per read.
  const OpenFiles::File& file_of(const StoredField& field) {
    const std::string& path = path_of(field);
    if (file_ != nullptr && file_->data.path() == path) return *file_;
    file_ = field.file.empty() ? files_.open(path, owner_.state.size, owner_.state.modified)
                               : files_.open(path, field.file_bytes);
    file_->check();
    return *file_;
  }

  OpenFiles& files_;
  ChunkCache& cache_;
  const FileIndex& owner_;
  Extents target_;
  std::span<std::byte> to_;
  std::shared_ptr<const OpenFiles::File> file_;
};

}  // namespace

void FieldReader::read(const FileIndex& owner, const StoredField& field, const Box& box,
                       std::span<std::byte> to) const {
  std::uint64_t bytes = field.type.bytes;
  for (std::size_t i = 0; i < field.extents.size(); ++i) {
    TRIREME_EXPECTS(box.count[i] > 0 && box.start[i] <= field.extents[i] &&
                        box.count[i] <= field.extents[i] - box.start[i],
                    "{}: {}: axis {} from {} on {} elements of {}", owner.path, field.name, i,
                    box.start[i], box.count[i], field.extents[i]);
    bytes *= box.count[i];
  }
  TRIREME_EXPECTS(bytes == to.size(), "{}: {}: {} bytes into {}", owner.path, field.name, bytes,
                  to.size());
  BoxRead(files_, cache_, owner, box, to).read(field, box, {});
}

}  // namespace trireme
