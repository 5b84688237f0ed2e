// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/field_scan.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "data/arrays/arrays.h"
#include "data/hdf5/field_storage.h"
#include "data/hdf5/object_path.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

constexpr hsize_t most_objects = 65536;

class Scanner {
 public:
  Scanner(const std::string& path, const ScanRequest& request)
      : request_(request), file_(open_hdf5(path)) {}

  std::vector<StoredUnit> units() {
    std::vector<StoredUnit> units;
    for (const std::string& group :
         request_.groups.empty() ? std::vector<std::string>{""} : groups()) {
      StoredUnit unit{.group = group, .fields = {}};
      for (const std::string& name : request_.fields)
        unit.fields.push_back(field(group, name));
      units.push_back(std::move(unit));
    }
    return units;
  }

  StoredUnit everything(std::vector<std::string>& notes) {
    StoredUnit unit;
    list(unit, notes, "", 0);
    return unit;
  }

 private:
  StoredField field(const std::string& group, const std::string& name) {
    const auto sign = name.find('@');
    const std::string object = group + "/" + name.substr(0, sign);
    const ObjectPlace place = resolve_object(file_, object, request_.outside_links);
    StoredField field = sign == std::string::npos
                            ? scan_data_set(place, request_)
                            : scan_attribute(place, name.substr(sign + 1), request_);
    if (request_.unpack && sign == std::string::npos && !field.is_text())
      scan_packing(place, request_, field);
    if (place.file != file_) {
      field.file = place.file->path;
      field.file_bytes = state_of_file(field.file).size;
    }
    field.name = (group.empty() ? "" : group + "/") + name;
    return field;
  }

  // Paths of the groups that match, sorted by the library.
  std::vector<std::string> groups() {
    std::vector<std::string> found{""};
    std::istringstream pattern(request_.groups);
    for (std::string word; std::getline(pattern, word, '/');) {
      if (word.empty()) continue;
      std::vector<std::string> parents = std::exchange(found, {});
      for (const std::string& parent : parents)
        add_groups(parent, word, found);
    }
    if (!request_.group_list.empty()) keep_listed(found);
    if (found.empty())
      fail(ExitCode::data, "{}: has no groups{}", file_->path,
           request_.groups == "*" ? " at its root" : fmt::format(" like {}", request_.groups));
    return found;
  }

  void add_groups(const std::string& parent, const std::string& word,
                  std::vector<std::string>& to) {
    const ObjectPlace inside = resolve_object(file_, parent, request_.outside_links);
    for (const std::string& name : members_of(*inside.file, inside.path)) {
      if (::fnmatch(word.c_str(), name.c_str(), 0) != 0) continue;
      const std::string path = parent + "/" + name;
      if (!is_group(resolve_object(file_, path, request_.outside_links))) continue;
      if (to.size() == most_objects)
        fail(ExitCode::data, "{}: has more than {} groups", file_->path, most_objects);
      to.push_back(path);
    }
  }

  // The groups whose last name is in the list; each name must be one.
  void keep_listed(std::vector<std::string>& groups) {
    const StoredField list = field("", request_.group_list);
    if (!list.is_text())
      fail(ExitCode::data, "{}: {}: holds numbers, but data.group_list needs names of groups",
           file_->path, list.name);
    std::set<std::string> names(list.names.begin(), list.names.end()), met;
    std::erase_if(groups, [&](const std::string& group) {
      const std::string name = group.substr(group.rfind('/') + 1);
      return !names.contains(name) || !met.insert(name).second;
    });
    for (const std::string& name : names) {
      if (!met.contains(name))
        fail(ExitCode::data, "{}: {}: names {}, but there is no such group like {}", file_->path,
             list.name, name, request_.groups);
    }
  }

  void list(StoredUnit& unit, std::vector<std::string>& notes, const std::string& group,
            int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) return notes.push_back(group + ": groups are nested too deep");
    list_attributes(unit, notes, group);
    for (const std::string& name : members_of(*file_, group.empty() ? "/" : group)) {
      const std::string path = group + "/" + name;
      if (unit.fields.size() + notes.size() > most_objects)
        fail(ExitCode::data, "{}: holds more than {} objects", file_->path, most_objects);
      try {
        const ObjectPlace place = resolve_object(file_, path, request_.outside_links);
        // A group behind a link is listed at its own place.
        if (is_group(place)) {
          if (place.file == file_ && place.path == path) list(unit, notes, path, depth + 1);
          continue;
        }
        unit.fields.push_back(field("", path.substr(1)));
        list_attributes(unit, notes, path);
      } catch (const Error& error) {
        notes.emplace_back(error.what());
      }
    }
  }

  void list_attributes(StoredUnit& unit, std::vector<std::string>& notes, const std::string& path) {
    const ObjectPlace place = resolve_object(file_, path, request_.outside_links);
    for (const std::string& name : attributes_of(place)) {
      // These link axes with dimension scales (also in netCDF).
      if (name == "DIMENSION_LIST" || name == "REFERENCE_LIST") continue;
      try {
        unit.fields.push_back(field("", (path.empty() ? "" : path.substr(1)) + "@" + name));
      } catch (const Error& error) {
        notes.emplace_back(error.what());
      }
    }
  }

  const ScanRequest& request_;
  std::shared_ptr<OpenHdf5> file_;
};

}  // namespace

FileIndex scan_file(const std::string& path, const ScanRequest& request) {
  if (is_array_file(path)) return scan_arrays(path, request);
  FileIndex index{.path = path, .state = state_of_file(path)};
  index.digest = digest_of_ends(path, index.state.size);
  const hdf5::Session session;
  Scanner scanner(path, request);
  if (request.fields.empty()) {
    index.units.push_back(scanner.everything(index.notes));
  } else {
    index.units = scanner.units();
  }
  return index;
}

}  // namespace trireme
