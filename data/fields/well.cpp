// SPDX-License-Identifier: Apache-2.0
#include "data/fields/well.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/fields/config_text.h"
#include "data/fields/describe.h"
#include "data/fields/field_dataset.h"
#include "data/files/parallel.h"
#include "data/hdf5/child.h"

namespace trireme {
namespace {

// As in The Well's benchmark.
constexpr std::uint64_t steps_in = 4, steps_out = 1;
constexpr double least_deviation = 1e-4;

const StoredField* attribute_of(const FileIndex& file, const std::string& object,
                                std::string_view name) {
  const std::vector<StoredField>& fields = file.units.front().fields;
  const auto found =
      std::ranges::find(fields, fmt::format("{}@{}", object, name), &StoredField::name);
  return found == fields.end() ? nullptr : &*found;
}

// One of an attribute's flags; without it, true.
bool flag(const FileIndex& file, const std::string& object, std::string_view name,
          std::size_t at = 0) {
  const StoredField* const field = attribute_of(file, object, name);
  if (field == nullptr || field->is_text() || at >= field->elements()) return true;
  Box box;
  box.start[0] = at;
  box.count[0] = 1;
  std::vector<std::byte> stored(field->type.bytes);
  FieldReader(0).read(file, *field, box, stored);
  return to_double(field->type, field->packing, stored.data()) != 0;
}

struct WellField {
  const StoredField* field;
  std::string axes;
  int order;  // of its tensor: 0, 1, 2
  [[nodiscard]] bool moves() const { return axes.find('T') != std::string::npos; }
};

// The axes that its attributes give a field of `sides`, such as "HW".
std::string axes_of_field(const FileIndex& file, const std::string& name, std::string_view sides,
                          int order) {
  std::string axes;
  if (flag(file, name, "sample_varying")) axes += 'N';
  if (flag(file, name, "time_varying")) axes += 'T';
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (flag(file, name, "dim_varying", i)) axes += sides[i];
  }
  return axes + std::string(static_cast<std::size_t>(order), 'C');
}

std::string_view sides_of(const FileIndex& file) {
  const StoredField* const names = attribute_of(file, "dimensions", "spatial_dims");
  const std::uint64_t sides = names == nullptr ? 2 : names->elements();
  return sides == 2 ? "HW" : sides == 3 ? "DHW" : "";
}

// "x_periodic PERIODIC", ...
std::string boundaries_text(const FileIndex& file) {
  constexpr std::string_view group = "boundary_conditions/", attribute = "@bc_type";
  std::vector<std::string> texts;
  for (const StoredField& field : file.units.front().fields) {
    if (!field.name.starts_with(group) || !field.name.ends_with(attribute) || !field.is_text())
      continue;
    const std::size_t end = field.name.size() - attribute.size();
    texts.push_back(fmt::format("{} {}", field.name.substr(group.size(), end - group.size()),
                                field.names.front()));
  }
  return texts.empty() ? "" : fmt::format("# boundary conditions: {}\n", fmt::join(texts, ", "));
}

std::string constants_text(const FileIndex& file) {
  std::vector<std::string> names;
  for (const StoredField& field : file.units.front().fields) {
    if (field.name.starts_with("scalars/") && !field.is_attribute()) names.push_back(field.name);
  }
  return names.empty()
             ? ""
             : fmt::format("# constants, which are no inputs here: {}\n", fmt::join(names, ", "));
}

// Those in time first, led by one that varies along all of `full`.
void put_in_order(std::vector<WellField>& fields, const std::string& full) {
  std::ranges::stable_sort(fields, {}, [&](const WellField& field) {
    return field.axes.starts_with(full) ? 0 : field.moves() ? 1 : 2;
  });
}

// Beside .../train/..., as in The Well's directories and in those of make_science_data.py.
std::string validation_text(const std::vector<std::string>& names) {
  for (const std::string_view part : {"valid", "validation"}) {
    std::vector<std::string> found;
    for (const std::string& name : names) {
      const std::filesystem::path path(name);
      std::filesystem::path other;
      for (const auto& word : path)
        other /= word == "train" ? std::filesystem::path(part) : word;
      if (path.has_extension()) other = other.parent_path();
      if (other != path && std::filesystem::is_directory(other) && name.find("train") != name.npos)
        found.push_back(other.string());
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (!found.empty()) return fmt::format("  validation_files: {}\n", yaml_list(found));
  }
  return "";
}

}  // namespace

std::optional<WellFields> well_fields(const FileIndex& file) {
  const std::string_view sides = sides_of(file);
  WellFields well;
  std::vector<WellField> found;
  bool any = false;
  for (const StoredField& field : file.units.front().fields) {
    const std::string& name = field.name;
    const bool group = name.size() > 10 && name[0] == 't' && name.substr(2, 8) == "_fields/" &&
                       name[1] >= '0' && name[1] <= '2';
    if (!group || field.is_attribute()) continue;
    any = true;
    const int order = name[1] - '0';
    const std::string axes = axes_of_field(file, name, sides, order);
    if (axes.size() == field.extents.size() && !axes.empty()) {
      found.push_back({&field, axes, order});
      continue;
    }
    well.text += fmt::format(
        "# left out: {}: is {}, but its attributes sample_varying, time_varying and dim_varying "
        "say {}\n",
        name, fmt::join(field.extents, " x "), axes.empty() ? "one number" : axes);
  }
  if (!any) return std::nullopt;
  const std::string full = fmt::format("NT{}", sides);
  put_in_order(found, full);
  well.text += constants_text(file) + boundaries_text(file);
  if (sides.empty() || found.empty() || !found.front().axes.starts_with(full)) {
    well.problem = fmt::format(
        "{}: {}", file.path,
        sides.empty() ? "the fields have 1 axis of space or more than 3, which no model reads"
                      : "no field varies over trajectories, time and space");
    return well;
  }
  well.steps = found.front().field->extents[1];
  std::vector<std::string> partly;
  for (const WellField& field : found) {
    well.inputs.push_back(field.field->name);
    well.axes.push_back(field.axes);
    if (field.axes.starts_with(full)) well.targets.push_back(field.field->name);
    if (!field.axes.starts_with(full)) partly.push_back(field.field->name);
  }
  if (!partly.empty())
    well.text +=
        fmt::format("# inputs that do not vary along all axes, and are not predicted: {}\n",
                    fmt::join(partly, ", "));
  if (well.steps < 2)
    well.problem = fmt::format("{}: {}: has one step, so there is none to predict", file.path,
                               well.inputs.front());
  return well;
}

Description described_well(const WellFields& well, const std::vector<std::string>& names,
                           const std::vector<std::string>& files) {
  if (!well.problem.empty()) return {"", well.problem};
  const auto window = static_cast<std::int64_t>(std::min(steps_in, well.steps - steps_out));
  FieldOptions options{{.files = names,
                        .samples = SampleUnit::axis,
                        .inputs = well.inputs,
                        .target = well.targets,
                        .axes = fmt::format("{}", fmt::join(well.axes, " ")),
                        .window = window,
                        .steps_ahead = steps_out,
                        .not_finite = NotFinite::keep}};
  options.depth = well.axes.front().find('D') == std::string::npos ? 0 : any_depth;
  options.predicted = {TargetKind::values, Shape{1, 0}, 0};
  const FieldDataset data(scan_in_children(files, scan_request(options), usable_cores()), options);
  const std::string validation = validation_text(names);
  return {
      fmt::format("# The Well: {} samples of {}: {} steps in, {} out; {} channels, {} values "
                  "per pixel to predict\n",
                  data.size(), data.shape().size_text(), window, steps_out, data.shape().channels(),
                  data.layout().targets.back()) +
          map_model_text(
              data.shape(), 48,
              fmt::format("values: {}, nonlinearity: tanh", data.layout().targets.back())) +
          fmt::format("data:\n  files: {}\n", yaml_list(names)) +
          (validation.empty() && data.size() >= 20 ? "  validation_fraction: 0.1\n" : validation) +
          fmt::format("  samples: axis\n  inputs: {}\n  target: {}\n  axes: {}\n  window: {}\n"
                      "  steps_ahead: {}\n",
                      yaml_list(well.inputs), yaml_list(well.targets), options.axes, window,
                      steps_out) +
          scaling_text(data, least_deviation) + training_text(data.size()),
      ""};
}

}  // namespace trireme
