// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/filter_plugins.h"

#include <H5PLextern.h>
#include <dlfcn.h>
#include <hdf5.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> plugin_directories() {
  std::vector<std::string> found;
  if (const char* const path = std::getenv("HDF5_PLUGIN_PATH")) {
    std::istringstream parts(path);
    for (std::string part; std::getline(parts, part, ':');) {
      if (!part.empty()) found.push_back(part);
    }
    return found;
  }
  return {"/usr/local/hdf5/lib/plugin", "/usr/lib/x86_64-linux-gnu/hdf5/serial/plugins",
          "/usr/lib/x86_64-linux-gnu/hdf5/plugins",
          "/usr/lib/aarch64-linux-gnu/hdf5/serial/plugins",
          "/usr/lib/aarch64-linux-gnu/hdf5/plugins"};
}

class Plugins {
 public:
  Plugins() {
    for (const std::string& directory : plugin_directories()) {
      std::error_code error;
      std::vector<fs::path> files;
      for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator();
           at.increment(error)) {
        if (at->path().extension() == ".so") files.push_back(at->path());
      }
      std::ranges::sort(files);
      for (const fs::path& file : files)
        load(file.string());
    }
  }

  [[nodiscard]] const H5Z_class2_t* find(std::uint32_t id) const {
    const auto found = filters_.find(id);
    return found == filters_.end() ? nullptr : found->second;
  }

 private:
  // Libraries stay loaded, because their functions are called until the process ends.
  void load(const std::string& path) {
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      log::get("data").info("{}: is not used: {}", path, ::dlerror());
      return;
    }
    const auto type = reinterpret_cast<H5PL_type_t (*)()>(::dlsym(library, "H5PLget_plugin_type"));
    const auto info = reinterpret_cast<const void* (*)()>(::dlsym(library, "H5PLget_plugin_info"));
    if (type == nullptr || info == nullptr || type() != H5PL_TYPE_FILTER) return;
    const auto* const filter = static_cast<const H5Z_class2_t*>(info());
    if (filter != nullptr && filter->version == H5Z_CLASS_T_VERS && filter->filter != nullptr &&
        filter->id > 0)
      filters_.emplace(static_cast<std::uint32_t>(filter->id), filter);
  }

  std::map<std::uint32_t, const H5Z_class2_t*> filters_;
};

const Plugins& plugins() {
  static const Plugins all;
  return all;
}

}  // namespace

bool has_filter_plugin(std::uint32_t id) {
  return plugins().find(id) != nullptr;
}

std::size_t undo_by_plugin(std::uint32_t id, const std::vector<std::uint32_t>& values,
                           std::span<const std::byte> from, std::span<std::byte> to) {
  const H5Z_class2_t* const filter = plugins().find(id);
  if (filter == nullptr) fail(ExitCode::data, "filter {}: is unknown", id);
  // A filter may replace this buffer by another, and frees it then.
  std::size_t room = std::max<std::size_t>(from.size(), 1);
  void* memory = std::malloc(room);
  if (memory == nullptr) fail(ExitCode::internal, "filter {}: out of memory", id);
  std::memcpy(memory, from.data(), from.size());
  const std::size_t written =
      filter->filter(H5Z_FLAG_REVERSE, values.size(), values.data(), from.size(), &room, &memory);
  const std::unique_ptr<void, decltype(&std::free)> owner(memory, &std::free);
  if (written == 0) fail(ExitCode::data, "filter {}: its plugin reports damaged data", id);
  if (written > to.size() || written > room)
    fail(ExitCode::data, "filter {}: the result is larger than the chunk", id);
  std::memcpy(to.data(), memory, written);
  return written;
}

}  // namespace trireme
