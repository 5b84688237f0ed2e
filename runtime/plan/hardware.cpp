// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/hardware.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/config/suggest.h"
#include "runtime/config/value.h"
#include "runtime/config/yaml/document.h"
#include "runtime/config/yaml/scalar.h"
#include "runtime/config/yaml/text_check.h"
#include "runtime/plan/hardware_fields.h"

namespace trireme::plan {
namespace {

using config::Node;

std::string full_key(const HardwareField& field) {
  return field.section.empty() ? std::string(field.key)
                               : fmt::format("{}.{}", field.section, field.key);
}

// What may stand at this place: keys, and at the top level sections.
std::vector<std::string_view> names_in(std::string_view section) {
  std::vector<std::string_view> names;
  for (const HardwareField& field : hardware_fields()) {
    const std::string_view name = field.section == section ? field.key
                                  : section.empty()        ? field.section
                                                           : std::string_view{};
    if (!name.empty() && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)), read_(hardware_fields().size()) {}

  Hardware read(const Node& root) {
    read_section("", root);
    const auto fields = hardware_fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].required && !read_[i]) {
        fail(ExitCode::config, "{}: {} is missing; see configs/hardware for examples", name_,
             full_key(fields[i]));
      }
    }
    return hardware_;
  }

 private:
  void read_section(std::string_view section, const Node& node) {
    const auto names = names_in(section);
    if (node.kind != Node::Kind::map) {
      fail(ExitCode::config, "{}:{}: {}expected keys such as {}, found {}", name_, node.line,
           section.empty() ? "" : fmt::format("{}: ", section), names.front(),
           config::describe(node));
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string& key = node.keys[i];
      if (std::ranges::find(names, key) == names.end()) unknown(section, key, node.key_lines[i]);
      const auto fields = hardware_fields();
      const auto field = std::ranges::find_if(
          fields, [&](const auto& f) { return f.section == section && f.key == key; });
      if (field == fields.end()) {
        read_section(key, node.items[i]);
      } else {
        read_[static_cast<std::size_t>(field - fields.begin())] = true;
        read_value(*field, node.items[i], node.key_lines[i]);
      }
    }
  }

  [[noreturn]] void unknown(std::string_view section, std::string_view key, int line) const {
    if (section.empty() && key == "counted") {
      fail(ExitCode::config,
           "{}:{}: counted: is no section any more; give its values in efficiency, which holds for "
           "all layers",
           name_, line);
    }
    const auto names = names_in(section);
    const std::string_view near = config::closest(key, names);
    fail(ExitCode::config, "{}:{}: {}{}{}: unknown key; {}", name_, line, section,
         section.empty() ? "" : ".", config::printable(key),
         near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                      : fmt::format("did you mean {}?", near));
  }

  void read_value(const HardwareField& field, const Node& node, int line) {
    const std::string place = fmt::format("{}:{}: {}", name_, line, full_key(field));
    const auto read = [&](const config::Slot& slot, const config::Limits& limits) {
      config::read_value(node, slot, limits, place);
    };
    const HardwareSlot slot = field.slot(hardware_);
    if (auto* const* text = std::get_if<std::string*>(&slot)) {
      read(*text, config::Text{.may_be_empty = false});
    } else if (auto* const* number = std::get_if<double*>(&slot)) {
      read(*number, config::NumberRange{.low = field.low, .high = field.high});
    } else {
      std::int64_t whole = 0;
      read(&whole, config::IntegerRange{.low = static_cast<std::int64_t>(field.low),
                                        .high = static_cast<std::int64_t>(field.high)});
      *std::get<int*>(slot) = static_cast<int>(whole);
    }
  }

  std::string name_;
  std::vector<bool> read_;  // by row of the table
  Hardware hardware_;
};

std::string value_text(const HardwareSlot& slot) {
  if (auto* const* text = std::get_if<std::string*>(&slot)) return config::quote_if_needed(**text);
  if (auto* const* whole = std::get_if<int*>(&slot)) return fmt::format("{}", **whole);
  return fmt::format("{}", *std::get<double*>(slot));
}

// A rate that is not given is written by leaving it out: 0 is no rate.
bool is_absent(const HardwareField& field, const HardwareSlot& slot) {
  auto* const* const value = std::get_if<double*>(&slot);
  return value != nullptr && !field.required && **value < field.low;
}

}  // namespace

Hardware slice_of(Hardware hardware, const std::string& profile) {
  constexpr int parts = 7;
  constexpr double gib = std::uint64_t{1} << 30;
  int processors = 0, memory = 0, end = 0;
  const bool read = std::sscanf(profile.c_str(), "%dg.%dgb%n", &processors, &memory, &end) == 2 &&
                    static_cast<std::size_t>(end) == profile.size();
  const double share = memory * gib / hardware.device.memory_bytes;
  if (!read || processors < 1 || processors > parts || memory < 1 || share > 1 ||
      hardware.node.cores > 0) {
    fail(ExitCode::config,
         "--slice: \"{}\" is not a MIG profile of {}: give sevenths of a GPU and GiB of {:.0f}, as "
         "in 3g.40gb (nvidia-smi mig -lgip lists the profiles)",
         profile, hardware.name, hardware.device.memory_bytes / gib);
  }
  const double fraction = static_cast<double>(processors) / parts;
  for (double& peak : hardware.device.peak_flops)
    peak *= fraction;
  hardware.device.memory_bytes = memory * gib;
  hardware.device.memory_bandwidth *= share;
  hardware.device.multiprocessors = hardware.device.multiprocessors * processors / parts;
  const int of_gpu = std::max(1, std::min(parts / processors, static_cast<int>(1 / share)));
  hardware.node.ranks *= of_gpu;
  hardware.links.between.bandwidth *=
      static_cast<double>(hardware.links.rails) / (hardware.links.domain * of_gpu);
  hardware.links.inside = hardware.links.between;
  hardware.links.domain = hardware.links.rails = 1;
  hardware.price_per_hour /= of_gpu;
  hardware.name += " " + profile;
  return hardware;
}

Hardware parse_hardware(std::string_view text, const std::string& name) {
  return Reader(name).read(config::parse_document(text, name));
}

Hardware load_hardware(const std::string& path) {
  return parse_hardware(config::read_text_file(path), path);
}

std::string to_yaml(const Hardware& hardware, std::string_view comment) {
  std::string text;
  while (!comment.empty()) {
    const std::size_t end = comment.find('\n');
    text += fmt::format("# {}\n", comment.substr(0, end));
    comment.remove_prefix(end == std::string_view::npos ? comment.size() : end + 1);
  }
  Hardware values = hardware;
  std::string_view section;
  for (const HardwareField& field : hardware_fields()) {
    const HardwareSlot slot = field.slot(values);
    if (is_absent(field, slot)) continue;
    if (field.section != section) text += fmt::format("{}:\n", field.section);
    section = field.section;
    text += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", field.key, value_text(slot));
  }
  return text;
}

}  // namespace trireme::plan
