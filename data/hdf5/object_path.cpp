// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/object_path.h"

#include <deque>
#include <filesystem>
#include <sstream>
#include <vector>

#include "data/hdf5/chunk_places.h"
#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

namespace fs = std::filesystem;

std::deque<std::string> components_of(const std::string& path) {
  std::deque<std::string> parts;
  std::istringstream text(path);
  for (std::string part; std::getline(text, part, '/');) {
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

// The target of a soft link, or the two texts of an external one.
std::vector<char> link_value(const ObjectPlace& at, const std::string& link, std::size_t bytes) {
  constexpr std::size_t longest = 65536;
  if (bytes > longest) fail(ExitCode::data, "{}: the link {} is damaged", at.file->path, link);
  std::vector<char> value(bytes + 1);
  checked(H5Lget_val(at.file->file, link.c_str(), value.data(), bytes, H5P_DEFAULT), "H5Lget_val",
          link);
  return value;
}

// Follows `link`, which is not a hard link; the remaining path is in `rest`.
void follow(ObjectPlace& at, const std::string& link, const H5L_info_t& info,
            std::deque<std::string>& rest, bool outside_links) {
  const std::vector<char> value = link_value(at, link, info.u.val_size);
  std::string target;
  if (info.type == H5L_TYPE_SOFT) {
    target = value.data();
    if (target.starts_with('/')) at.path.clear();
  } else if (info.type == H5L_TYPE_EXTERNAL) {
    unsigned flags = 0;
    const char *file = nullptr, *object = nullptr;
    checked(H5Lunpack_elink_val(value.data(), info.u.val_size, &flags, &file, &object),
            "H5Lunpack_elink_val", link);
    target = object;
    at = {open_hdf5(linked_file(*at.file, file, outside_links)), ""};
  } else {
    fail(ExitCode::data, "{}: {} is a link of an unknown kind", at.file->path, link);
  }
  const auto ahead = components_of(target);
  rest.insert(rest.begin(), ahead.begin(), ahead.end());
}

}  // namespace

std::shared_ptr<OpenHdf5> open_hdf5(const std::string& path) {
  static_cast<void>(open_regular_file(path, ExitCode::data));  // a link may name a pipe
  const Handle access = watched_access_properties(path);
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (file < 0) {
    const std::string reason = hdf5::last_error(), newer = hdf5::advice_for_newer_file(reason);
    if (!newer.empty()) fail(ExitCode::data, "{}: {}", path, newer);
    if (H5Fis_hdf5(path.c_str()) > 0)
      fail(ExitCode::data, "{}: the HDF5 file is truncated or damaged: {}", path, reason);
    fail(ExitCode::data, "{}: not an HDF5 file; it is {}", path,
         describe_file_kind(path, ExitCode::data));
  }
  return std::make_shared<OpenHdf5>(OpenHdf5{path, std::move(file)});
}

std::string linked_file(const OpenHdf5& from, const std::string& name, bool outside_links) {
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(fs::absolute(from.path, error), error).parent_path();
  const fs::path target = fs::weakly_canonical(folder / name, error);
  const auto relative = target.lexically_relative(folder);
  if (!outside_links && (relative.empty() || *relative.begin() == "..")) {
    fail(ExitCode::data,
         "{}: links to {}, which is outside its folder; set data.outside_links: true if you trust "
         "these files",
         from.path, name);
  }
  return target.string();
}

ObjectPlace resolve_object(std::shared_ptr<OpenHdf5> file, const std::string& path,
                           bool outside_links) {
  constexpr int most_links = 16;
  ObjectPlace at{std::move(file), ""};
  auto rest = components_of(path);
  for (int links = 0; !rest.empty();) {
    const std::string next = at.path + "/" + rest.front();
    rest.pop_front();
    const htri_t exists = H5Lexists(at.file->file, next.c_str(), H5P_DEFAULT);
    if (exists <= 0)
      fail(ExitCode::data, "{}: holds no {} (there is no {})", at.file->path, path, next);
    H5L_info_t info;
    checked(H5Lget_info(at.file->file, next.c_str(), &info, H5P_DEFAULT), "H5Lget_info", next);
    if (info.type == H5L_TYPE_HARD) {
      at.path = next;
    } else if (++links > most_links) {
      fail(ExitCode::data, "{}: {}: its links form a cycle, or a chain of more than {}",
           at.file->path, path, most_links);
    } else {
      follow(at, next, info, rest, outside_links);
    }
  }
  if (at.path.empty()) at.path = "/";
  return at;
}

}  // namespace trireme
