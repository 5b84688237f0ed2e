// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/one_process.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <limits>
#include <memory>

#include "data/fields/describe.h"
#include "data/fields/field_dataset.h"
#include "data/fields/statistics.h"
#include "data/images/files_dataset.h"
#include "data/images/inspect_images.h"
#include "data/pack/parallel.h"
#include "data/pack/progress.h"
#include "data/preview.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/data_sets.h"
#include "launch/engine/image_sets.h"
#include "models/config.h"

namespace trireme {
namespace {

struct ConfigArguments {
  std::string config;
  std::string source;
  std::vector<std::string> overrides;
};

void add_options(CLI::App& command, ConfigArguments& arguments) {
  add_config_options(command, arguments.config, arguments.overrides);
  command.add_option("--source", arguments.source, "Which of data.sources, by its name");
}

// With the source of that name alone as data.
Config of_source(Config config, const std::string& name) {
  const auto& sources = config.data.sources;
  const auto found = std::ranges::find(sources, name, &NamedSource::label);
  if (found == sources.end()) fail(ExitCode::config, "--source: {} is none of data.sources", name);
  DataConfig alone;
  static_cast<DataSource&>(alone) = *found;
  config.data = std::move(alone);
  return config;
}

Config config_of(const ConfigArguments& arguments) {
  Config config = load_config(arguments.config, arguments.overrides);
  return arguments.source.empty() ? config : of_source(std::move(config), arguments.source);
}

// The training data of a config, whatever its model reads. `plain`: as stored, without scaling.
std::unique_ptr<FieldDataset> open_files(const ConfigArguments& arguments, Config config,
                                         bool plain) {
  if (!config.data.in_place()) {
    fail(ExitCode::config,
         "{}: data.files names no files; this command is for HDF5 files that are read in place "
         "(one of data.sources: --source NAME; packed shards and images: trireme data inspect)",
         arguments.config);
  }
  if (plain) {
    config.data.scaling = Scaling::none;
    config.data.not_finite = NotFinite::keep;
    config.data.input_channels.clear();
  }
  // Statistics leave out what is no number.
  return open_files_alone(config, plain ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
}

void add_describe(CLI::App& data) {
  struct Arguments {
    std::vector<std::string> files;
    std::string label;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* const command = data.add_subcommand(
      "describe", "Look at HDF5 files or images and print a config that trains on them in place");
  command
      ->add_option("files", arguments->files,
                   "HDF5 files, directories or patterns; or archives of images (*.tar), or a "
                   "directory of class folders, or of splits of them (train, val or validation)")
      ->required();
  command->add_option("--label", arguments->label,
                      "Member of an archive of images that has a sample's label: cls, txt or "
                      "json:FIELD (default: what is there)");
  command->footer(
      "What the first file holds stands in comments; a config that fits all of them follows.\n"
      "Examples: trireme data describe data/deepcam/train > configs/deepcam.yaml\n"
      "          trireme data describe 'imagenet/train-*.tar' > configs/imagenet.yaml");
  on_one_process(*command, [arguments] {
    const auto& [files, label] = *arguments;
    const bool images = std::ranges::all_of(files, names_images);
    if (!images && !label.empty())
      fail(ExitCode::config, "--label: is for images, and {} holds none", files.front());
    const Description found = images ? describe_images(files, label, usable_cores())
                                     : describe_files(files, usable_cores());
    fmt::print("{}", found.text);
    std::fflush(stdout);
    if (!found.problem.empty()) fail(ExitCode::data, "{}", found.problem);
  });
}

void add_statistics(CLI::App& data) {
  struct Arguments : ConfigArguments {
    std::string out;
    bool quiet = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* const command = data.add_subcommand(
      "statistics", "Mean, deviation, range and NaN counts of every channel of data.files");
  add_options(*command, *arguments);
  command->add_option("--out", arguments->out, "File to write, for data.statistics")->required();
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->footer(
      "Then: data: {scaling: mean_std, statistics: FILE}\n"
      "Example: trireme data statistics configs/deepcam_like.yaml --out data/deepcam.json");
  on_one_process(*command, [arguments] {
    const auto dataset = open_files(*arguments, config_of(*arguments), /*plain=*/true);
    Progress progress("reading", static_cast<std::uint64_t>(dataset->size()), "samples",
                      !arguments->quiet);
    std::uint64_t shown = 0;
    const auto channels = compute_statistics(*dataset, usable_cores(), [&](std::uint64_t done) {
      if (done > shown) progress.add(done - shown);
      shown = std::max(shown, done);
    });
    write_statistics(arguments->out, *dataset, channels);
    fmt::print("{:>8} {:>14} {:>14} {:>14} {:>14} {:>10}\n", "channel", "mean", "std", "min", "max",
               "not finite");
    for (std::size_t c = 0; c < channels.size(); ++c) {
      const ChannelStatistics& of = channels[c];
      fmt::print("{:>8} {:>14.6g} {:>14.6g} {:>14.6g} {:>14.6g} {:>10}\n", c, of.mean, of.deviation,
                 of.minimum, of.maximum, of.not_finite);
    }
  });
}

void add_preview(CLI::App& data) {
  struct Arguments : ConfigArguments {
    std::string out;
    std::int64_t samples = 8;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* const command = data.add_subcommand(
      "preview",
      "Write samples as PNG files: of data.files a tile per channel, of data.images as the first "
      "epoch crops them");
  add_options(*command, *arguments);
  command->add_option("--out", arguments->out, "Directory to write to")->required();
  command->add_option("--samples", arguments->samples, "How many, evenly spread")
      ->capture_default_str()
      ->check(integer_between(1, 100000));
  command->footer("Example: trireme data preview configs/deepcam_like.yaml --out preview");
  on_one_process(*command, [arguments] {
    const Config config = config_of(*arguments);
    const auto paths =
        config.data.images.empty()
            ? write_previews(*open_files(*arguments, config, /*plain=*/false), arguments->out,
                             arguments->samples)
            : write_previews(
                  *open_image_files(image_options(config, config.data, /*training=*/true),
                                    usable_cores()),
                  arguments->out, arguments->samples);
    for (const std::string& path : paths)
      fmt::print("{}\n", path);
  });
}

}  // namespace

void add_field_commands(CLI::App& data) {
  add_describe(data);
  add_statistics(data);
  add_preview(data);
}

}  // namespace trireme
