// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/yaml/text_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/utf8.h"
#include "runtime/config/yaml/document.h"

namespace trireme::config {
namespace {

constexpr std::size_t longest_shown = 60;

bool is_control(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return code < 0x20 || code == 0x7f;
}

bool is_continuation(char letter) {
  return (static_cast<unsigned char>(letter) & 0xC0U) == 0x80U;
}

bool indents_with_tab(std::string_view line) {
  const auto start = line.find_first_not_of(" \t\r");
  if (start == std::string_view::npos || line[start] == '#') return false;
  return line.substr(0, start).find('\t') != std::string_view::npos;
}

void check_line(std::string_view line, std::string_view name, std::size_t number) {
  for (std::size_t at = 0; at < line.size();) {
    const char letter = line[at];
    if (is_control(letter) && letter != '\t' && letter != '\r') {
      fail(ExitCode::config, "{}:{}: byte {:#04x} is a control character; is this a YAML file?",
           name, number, static_cast<unsigned char>(letter));
    }
    const Utf8Step step = utf8_step(line, at);
    if (!step.valid) {
      fail(ExitCode::config, "{}:{}: byte {:#04x} is not UTF-8; is this a YAML file?", name, number,
           static_cast<unsigned char>(letter));
    }
    at += step.bytes;
  }
  if (indents_with_tab(line)) {
    fail(ExitCode::config, "{}:{}: a tab in the indentation; YAML indents with spaces", name,
         number);
  }
}

}  // namespace

void check_text(std::string_view text, std::string_view name) {
  if (text.size() > max_bytes) {
    fail(ExitCode::config, "{}: larger than {} bytes; is this a config file?", name, max_bytes);
  }
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    check_line(text.substr(0, end), name, ++number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, is_control);
}

std::string printable(std::string_view text) {
  std::size_t end = std::min(text.size(), longest_shown);
  while (end > 0 && end < text.size() && is_continuation(text[end]))
    --end;
  std::string shown;
  for (const char letter : text.substr(0, end)) {
    if (is_control(letter)) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    } else {
      shown += letter;
    }
  }
  return text.size() > end ? shown + "..." : shown;
}

std::string read_text_file(const std::string& path) {
  if (path.empty()) fail(ExitCode::config, "no config file given");
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open())
    fail(ExitCode::config, "{}: cannot open the config file: {}", path, std::strerror(errno));
  struct stat status {};
  if (fstat(file.get(), &status) != 0) system_failed("fstat", path, ExitCode::config);
  if (S_ISDIR(status.st_mode)) fail(ExitCode::config, "{}: is a directory; give a YAML file", path);
  if (!S_ISREG(status.st_mode))
    fail(ExitCode::config,
         "{}: is not a regular file but a pipe or a device, which every rank would have to read; "
         "copy its output into a file",
         path);

  // Reported sizes are unreliable (0 in /proc), so reads one byte over the limit.
  std::string text(max_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) system_failed("read", path, ExitCode::config);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

}  // namespace trireme::config
