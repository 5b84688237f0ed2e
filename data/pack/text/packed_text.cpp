// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/packed_text.h"

#include <zlib.h>
#include <zstd.h>

#include <array>
#include <memory>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t unpacked_block_bytes = std::size_t{1} << 18;

using TakeBytes = std::function<void(std::span<const std::byte>)>;

// For files with one or more concatenated members.
class Unpacker {
 public:
  virtual ~Unpacker() = default;
  virtual void read(std::span<const std::byte> packed, const TakeBytes& take) = 0;
  // Raises ExitCode::data for a truncated file.
  virtual void finish() const = 0;
};

class GzipReader final : public Unpacker {
 public:
  explicit GzipReader(const std::string& name) : name_(name), block_(unpacked_block_bytes) {
    constexpr int gzip_alone = 15 + 16;
    if (inflateInit2(&stream_, gzip_alone) != Z_OK)
      library_failed("inflateInit2(...)", "out of memory");
  }
  ~GzipReader() override {
    inflateEnd(&stream_);  // unchecked: nothing left to lose
  }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  void read(std::span<const std::byte> packed, const TakeBytes& take) override {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    do {
      // Files written in blocks, as to tape, may be padded with zeros.
      while (ended_ && stream_.avail_in > 0 && *stream_.next_in == 0)
        ++stream_.next_in, --stream_.avail_in;
      if (ended_ && stream_.avail_in > 0) {
        if (inflateReset(&stream_) != Z_OK) damaged();
        ended_ = false;
      }
      if (ended_) return;
      stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
      stream_.avail_out = static_cast<uInt>(block_.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) damaged();
      ended_ = status == Z_STREAM_END;
      const std::size_t got = block_.size() - stream_.avail_out;
      if (got > 0) take(std::span(block_).first(got));
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  }

  void finish() const override {
    if (!ended_) fail(ExitCode::data, "{}: this gzip file ends early; get it anew", name_);
  }

 private:
  [[noreturn]] void damaged() const {
    fail(ExitCode::data, "{}: this gzip file is damaged ({}); get it anew", name_,
         stream_.msg != nullptr ? stream_.msg : "behind its end");
  }

  const std::string& name_;
  std::vector<std::byte> block_;
  z_stream stream_{};
  bool ended_ = false;
};

class ZstdReader final : public Unpacker {
 public:
  explicit ZstdReader(const std::string& name)
      : name_(name), block_(ZSTD_DStreamOutSize()), stream_(ZSTD_createDStream()) {
    if (!stream_) library_failed("ZSTD_createDStream()", "out of memory");
  }

  void read(std::span<const std::byte> packed, const TakeBytes& take) override {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    bool full = false;
    while (in.pos < in.size || full) {
      ZSTD_outBuffer out{block_.data(), block_.size(), 0};
      left_ = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_isError(left_) != 0)
        fail(ExitCode::data, "{}: this zstd file is damaged ({}); get it anew", name_,
             ZSTD_getErrorName(left_));
      if (out.pos > 0) take(std::span(block_).first(out.pos));
      full = out.pos == out.size && left_ != 0;
    }
  }

  void finish() const override {
    if (left_ != 0) fail(ExitCode::data, "{}: this zstd file ends early; get it anew", name_);
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  const std::string& name_;
  std::vector<std::byte> block_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  std::size_t left_ = 1;  // 0: a frame is complete
};

std::unique_ptr<Unpacker> unpacker_for(std::span<const std::byte> start, const std::string& name) {
  constexpr std::array gzip = {std::byte{0x1F}, std::byte{0x8B}, std::byte{8}};
  constexpr std::array zstd = {std::byte{0x28}, std::byte{0xB5}, std::byte{0x2F}, std::byte{0xFD}};
  const auto begins = [&](const auto& magic) {
    return start.size() >= magic.size() && std::equal(magic.begin(), magic.end(), start.begin());
  };
  if (begins(gzip)) return std::make_unique<GzipReader>(name);
  if (begins(zstd)) return std::make_unique<ZstdReader>(name);
  return nullptr;
}

}  // namespace

void read_text_part(const TextPart& part, const std::function<void(std::uint64_t)>& read,
                    const std::function<void(std::span<const std::byte>)>& take) {
  std::unique_ptr<Unpacker> packed;
  bool first = true;
  read_part(part, [&](std::span<const std::byte> bytes) {
    read(bytes.size());
    if (first) packed = unpacker_for(bytes, part.name);
    first = false;
    packed ? packed->read(bytes, take) : take(bytes);
  });
  if (packed) packed->finish();
}

}  // namespace trireme
