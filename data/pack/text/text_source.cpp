// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/text_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "data/pack/file_tree.h"
#include "data/pack/interruption.h"
#include "runtime/base/error.h"
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
           "{}: changed from {} to {} bytes while it was packed; pack a file that no one writes to",
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

}  // namespace trireme
