// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/config/yaml/document.h"

namespace trireme::config {

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
         "copy what it gives into a file",
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
