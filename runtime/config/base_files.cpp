// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/base_files.h"

#include <algorithm>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/config/yaml/scalar.h"
#include "runtime/config/yaml/text_check.h"

namespace trireme::config {
namespace {

namespace fs = std::filesystem;

struct Base {
  std::string written;
  std::string place;  // "a.yaml:1: base"
};

std::ptrdiff_t index_of_base(const Node& root) {
  const auto found = std::ranges::find(root.keys, "base");
  return root.kind == Node::Kind::map && found != root.keys.end() ? found - root.keys.begin() : -1;
}

std::string place_of(const Node& root, std::ptrdiff_t index, const std::string& name) {
  return fmt::format("{}:{}: base", name, root.key_lines[static_cast<std::size_t>(index)]);
}

std::optional<Base> take_base(Node& root, const std::string& name) {
  const std::ptrdiff_t index = index_of_base(root);
  if (index < 0) return std::nullopt;
  const Base base{root.items[static_cast<std::size_t>(index)].text, place_of(root, index, name)};
  const Node& value = root.items[static_cast<std::size_t>(index)];
  if (value.kind != Node::Kind::scalar || value.text.empty()) {
    fail(ExitCode::config,
         "{}: expected the name of another config file, for example base: gpt_tiny.yaml, found {}",
         base.place, describe(value));
  }
  root.keys.erase(root.keys.begin() + index);
  root.key_lines.erase(root.key_lines.begin() + index);
  root.items.erase(root.items.begin() + index);
  return base;
}

std::string file_of(const Base& base, const fs::path& beside) {
  const fs::path file = (beside / base.written).lexically_normal();
  std::error_code ignored;  // a path that cannot be examined counts as absent
  if (!fs::is_regular_file(file, ignored)) {
    fail(ExitCode::config,
         "{}: {}: there is no file {}; a base is looked for beside the file that names it",
         base.place, printable(base.written), printable(file.string()));
  }
  return file.string();
}

void refuse_circle(const std::vector<ConfigFile>& files, const std::string& next,
                   const std::string& place) {
  std::error_code ignored;
  const auto met = std::ranges::find_if(
      files, [&](const ConfigFile& file) { return fs::equivalent(file.name, next, ignored); });
  if (met == files.end()) return;
  std::string way;
  for (auto file = met; file != files.end(); ++file)
    way += file->name + " -> ";
  fail(ExitCode::config, "{}: the bases form a cycle: {}{}; remove the base from one of them",
       place, way, met->name);
}

}  // namespace

std::vector<ConfigFile> read_with_bases(const std::string& path) {
  std::vector<ConfigFile> files;  // the requested file first
  for (std::optional<std::string> next = path; next.has_value();) {
    ConfigFile file{*next};
    file.root = parse_document(read_text_file(file.name), file.name);
    const std::optional<Base> base = take_base(file.root, file.name);
    files.push_back(std::move(file));
    next.reset();
    if (!base.has_value()) continue;
    next = file_of(*base, files.back().directory());
    refuse_circle(files, *next, base->place);
    if (files.size() > max_bases)
      fail(ExitCode::config, "{}: more than {} files, each based on the next", base->place,
           max_bases);
  }
  std::ranges::reverse(files);
  return files;
}

void refuse_base(const Node& root, const std::string& name) {
  if (const std::ptrdiff_t index = index_of_base(root); index >= 0)
    fail(ExitCode::config, "{}: only a config file can have a base", place_of(root, index, name));
}

}  // namespace trireme::config
