// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/gzip_text.h"

#include <zlib.h>

#include <array>
#include <memory>
#include <vector>

#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t gzip_block_bytes = std::size_t{1} << 18;

// Of files with one or more members, one behind the other.
class GzipReader {
 public:
  explicit GzipReader(const std::string& name) : name_(name), block_(gzip_block_bytes) {
    constexpr int gzip_alone = 15 + 16;
    if (inflateInit2(&stream_, gzip_alone) != Z_OK)
      library_failed("inflateInit2(...)", "out of memory");
  }
  ~GzipReader() {
    inflateEnd(&stream_);  // unchecked: nothing is left to lose
  }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  void read(std::span<const std::byte> packed,
            const std::function<void(std::span<const std::byte>)>& take) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    do {
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

  void finish() const {
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

}  // namespace

void read_text_part(const TextPart& part, const std::function<void(std::uint64_t)>& read,
                    const std::function<void(std::span<const std::byte>)>& take) {
  constexpr std::array magic = {std::byte{0x1F}, std::byte{0x8B}, std::byte{8}};
  std::unique_ptr<GzipReader> gzip;
  bool first = true;
  read_part(part, [&](std::span<const std::byte> bytes) {
    read(bytes.size());
    if (first && bytes.size() >= magic.size() &&
        std::equal(magic.begin(), magic.end(), bytes.begin()))
      gzip = std::make_unique<GzipReader>(part.name);
    first = false;
    gzip ? gzip->read(bytes, take) : take(bytes);
  });
  if (gzip) gzip->finish();
}

}  // namespace trireme
