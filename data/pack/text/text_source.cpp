// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/text_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "data/files/file_tree.h"
#include "data/pack/progress.h"
#include "runtime/base/error.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t text_block_bytes = std::size_t{1} << 20;
constexpr int stop_check_milliseconds = 100;

TextPart spooled(const std::string& name, int descriptor, const std::string& directory) {
  TextPart part{name, 0, std::make_shared<SpoolFile>(directory)};
  std::vector<std::byte> block(text_block_bytes);
  while (true) {
    stop_if_asked();
    // A signal right before a blocking read would not interrupt it.
    pollfd stream{descriptor, POLLIN, 0};
    if (::poll(&stream, 1, stop_check_milliseconds) <= 0) continue;
    const ssize_t got = ::read(descriptor, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) system_failed("read", name, ExitCode::data);
    if (got == 0) break;
    part.spool->append(std::span(block).first(static_cast<std::size_t>(got)));
  }
  part.bytes = part.spool->size();
  return part;
}

void add_input(const std::string& input, const std::string& spool_directory,
               std::vector<TextPart>& parts) {
  if (input == "-") {
    parts.push_back(spooled("stdin", STDIN_FILENO, spool_directory));
    return;
  }
  const fs::file_status status = fs::status(input);
  if (status.type() == fs::file_type::not_found)
    fail(ExitCode::data, "{}: no such file or directory", input);
  if (status.type() == fs::file_type::directory) {
    for (const std::string& file : list_files(input))
      parts.push_back({file, InputFile(file).size(), nullptr});
  } else if (status.type() == fs::file_type::regular) {
    parts.push_back({input, InputFile(input).size(), nullptr});
  } else {
    const FileDescriptor stream = open_for_reading(input, ExitCode::data);
    parts.push_back(spooled(input, stream.get(), spool_directory));
  }
}

}  // namespace

std::vector<TextPart> list_text(const std::vector<std::string>& inputs,
                                const std::string& spool_directory) {
  std::vector<TextPart> parts;
  for (const std::string& input : inputs) {
    try {
      add_input(input, spool_directory, parts);
    } catch (const fs::filesystem_error& error) {
      fail(ExitCode::data, "{}: cannot be listed: {}", error.path1().string(),
           error.code().message());
    }
  }
  const std::size_t empty =
      std::erase_if(parts, [](const TextPart& part) { return part.bytes == 0; });
  if (parts.empty()) {
    fail(ExitCode::data, "{}: no text found; every input is empty",
         fmt::format("{}", fmt::join(inputs, ", ")));
  }
  if (empty > 0) log::get("data").warn("left out {} empty input(s)", empty);
  return parts;
}

void read_part(const TextPart& part, const std::function<void(std::span<const std::byte>)>& take) {
  std::vector<std::byte> block(std::min<std::uint64_t>(text_block_bytes, part.bytes));
  std::unique_ptr<InputFile> file;
  if (!part.spool) {
    file = std::make_unique<InputFile>(part.name);
    if (file->size() != part.bytes) {
      fail(ExitCode::data,
           "{}: changed from {} to {} bytes while it was packed; pack a file that nobody writes to",
           part.name, part.bytes, file->size());
    }
  }
  for (std::uint64_t done = 0; done < part.bytes;) {
    const auto piece =
        std::span(block).first(std::min<std::uint64_t>(block.size(), part.bytes - done));
    file ? file->read(done, piece) : part.spool->read(done, piece);
    stop_if_asked();
    take(piece);
    done += piece.size();
  }
}

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
    if (!ended_) fail(ExitCode::data, "{}: this gzip file ends early; get it again", name_);
  }

 private:
  [[noreturn]] void damaged() const {
    fail(ExitCode::data, "{}: this gzip file is damaged ({}); get it again", name_,
         stream_.msg != nullptr ? stream_.msg : "after its end");
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
        fail(ExitCode::data, "{}: this zstd file is damaged ({}); get it again", name_,
             ZSTD_getErrorName(left_));
      if (out.pos > 0) take(std::span(block_).first(out.pos));
      full = out.pos == out.size && left_ != 0;
    }
  }

  void finish() const override {
    if (left_ != 0) fail(ExitCode::data, "{}: this zstd file ends early; get it again", name_);
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
  constexpr std::array skipped = {std::byte{0x50}, std::byte{0x2A}, std::byte{0x4D},
                                  std::byte{0x18}};
  const auto begins = [&](const auto& magic) {
    return start.size() >= magic.size() && std::equal(magic.begin(), magic.end(), start.begin());
  };
  if (begins(gzip)) return std::make_unique<GzipReader>(name);
  if (begins(zstd) || begins(skipped)) return std::make_unique<ZstdReader>(name);
  return nullptr;
}

}  // namespace

void read_text_part(const TextPart& part, const std::function<void(std::uint64_t)>& read,
                    const std::function<void(std::span<const std::byte>)>& take) {
  std::unique_ptr<Unpacker> packed;
  bool first = true, first_text = true;
  const TakeBytes checked = [&](std::span<const std::byte> text) {
    const std::string kind =
        std::exchange(first_text, false)
            ? binary_kind_of({reinterpret_cast<const char*>(text.data()), text.size()})
            : "";
    if (!kind.empty())
      fail(ExitCode::data, "{}: {} no text; it is {}", part.name, packed ? "unpacks to" : "holds",
           kind);
    take(text);
  };
  read_part(part, [&](std::span<const std::byte> bytes) {
    read(bytes.size());
    if (std::exchange(first, false)) packed = unpacker_for(bytes, part.name);
    packed ? packed->read(bytes, checked) : checked(bytes);
  });
  if (packed) packed->finish();
}

}  // namespace trireme
