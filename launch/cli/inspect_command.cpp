// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "data/fields/statistics.h"
#include "data/files/parallel.h"
#include "data/images/files_dataset.h"
#include "data/kinds.h"
#include "data/pack/progress.h"
#include "data/preview.h"
#include "launch/cli/number_check.h"
#include "launch/cli/shared_options.h"
#include "launch/engine/data_sets.h"
#include "models/config.h"

namespace trireme {
namespace {

struct ConfigArguments {
  std::string config;
  std::string source;
  std::vector<std::string> overrides;
};

struct InspectArguments : ConfigArguments {
  DataPlace place;
  std::string out;
  bool print_config = false, statistics = false, verify = false, quiet = false;
};

struct PreviewArguments : ConfigArguments {
  std::string out;
  std::int64_t samples = 8;
};

void add_source_option(CLI::App& command, ConfigArguments& arguments) {
  command.add_option("--source", arguments.source,
                     "Of a config: which of data.sources, by its name");
}

Config config_of(const ConfigArguments& arguments) {
  Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.source.empty()) return config;
  const auto& sources = config.data.sources;
  const auto found = std::ranges::find(sources, arguments.source, &NamedSource::label);
  if (found == sources.end())
    fail(ExitCode::config, "--source: {} is not one of data.sources", arguments.source);
  DataConfig alone;
  static_cast<DataSource&>(alone) = *found;
  config.data = std::move(alone);
  return config;
}

// Opens a config's training data for any model. `plain`: as stored, without scaling.
std::unique_ptr<FieldDataset> open_files(const ConfigArguments& arguments, Config config,
                                         bool plain) {
  if (config.data.kind() != SourceKind::files) {
    fail(ExitCode::config,
         "{}: data.files names no files; this is for HDF5 files that are read in place (one of "
         "data.sources: --source NAME)",
         arguments.config);
  }
  if (plain) {
    config.data.scaling = Scaling::none;
    config.data.not_finite = NotFinite::keep;
    config.data.input_channels.clear();
  }
  // Statistics skip NaN.
  return open_files_alone(config, plain ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
}

void print_statistics(const InspectArguments& arguments) {
  const auto dataset = open_files(arguments, config_of(arguments), /*plain=*/true);
  Progress progress("reading", static_cast<std::uint64_t>(dataset->size()), "samples",
                    !arguments.quiet);
  std::uint64_t shown = 0;
  const auto channels = compute_statistics(*dataset, usable_cores(), [&](std::uint64_t done) {
    if (done > shown) progress.add(done - shown);
    shown = std::max(shown, done);
  });
  write_statistics(arguments.out, *dataset, channels);
  fmt::print("{:>8} {:>14} {:>14} {:>14} {:>14} {:>10}\n", "channel", "mean", "std", "min", "max",
             "not finite");
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const ChannelStatistics& of = channels[c];
    fmt::print("{:>8} {:>14.6g} {:>14.6g} {:>14.6g} {:>14.6g} {:>10}\n", c, of.mean, of.deviation,
               of.minimum, of.maximum, of.not_finite);
  }
}

void report_verified(const std::vector<ShardReport>& all) {
  for (const ShardReport& report : all) {
    if (report.problem.empty()) {
      fmt::print("{}: good ({:.1f} MB)\n", report.path, static_cast<double>(report.bytes) * 1e-6);
      continue;
    }
    fmt::print("{}: BROKEN\n  {}\n", report.path, report.problem);
    for (const std::string& other : report.others)
      fmt::print("  {}\n", other);
  }
  const auto is_broken = [](const ShardReport& report) { return !report.problem.empty(); };
  const auto broken = std::ranges::find_if(all, is_broken);
  if (broken == all.end()) return;
  std::fflush(stdout);
  const auto count = std::ranges::count_if(all, is_broken);
  fail(ExitCode::data, "{} of {} files {} broken; the first: {}", count, all.size(),
       count == 1 ? "is" : "are", broken->problem);
}

// Sets the training data, if one set is named.
void take_place(const ConfigArguments& arguments, DataPlace& place) {
  const DataSource data = config_of(arguments).data;
  place.names = data.place(DataPart::training).names;
  if (place.names.empty() || place.names.front().empty())
    fail(ExitCode::config,
         "{}: names no data to train on by data.path, data.files or data.images; one of "
         "data.sources: --source NAME",
         arguments.config);
  if (data.kind() == SourceKind::images && place.label.empty()) place.label = data.label;
}

// Refuses requests that this kind of data cannot answer.
void check_asked(const InspectArguments& arguments, const DataKindRow& kind) {
  const DataPlace& place = arguments.place;
  const std::string& name = place.names.front();
  if (!place.label.empty() && !kind.labels)
    fail(ExitCode::config, "--label: is for images, but {} holds none", name);
  if (place.preview > 0 && !kind.preview)
    fail(ExitCode::config,
         "--preview: shows tokens or images, but {} holds {}; for their samples: trireme data "
         "preview CONFIG",
         name, kind.name);
  if (arguments.verify && kind.verify == nullptr)
    fail(ExitCode::data,
         "--verify: {} holds {}, which have no checksums; --statistics reads all data that a "
         "config uses of them",
         name, kind.name);
}

// A config that no run would take is not printed.
void require_valid(const std::string& text) {
  try {
    Provenance where;
    static_cast<void>(resolve_config(parse_config(text, "config", {}, &where), {}, &where));
  } catch (const Error& error) {
    fail(ExitCode::data, "no model family reads such samples: {}", error.what());
  }
}

void inspect(InspectArguments& arguments) {
  DataPlace& place = arguments.place;
  const bool yaml = place.names.size() == 1 && (place.names.front().ends_with(".yaml") ||
                                                place.names.front().ends_with(".yml"));
  if (place.names.size() > 1 && arguments.statistics)
    fail(ExitCode::config, "--statistics: needs one config, but {} paths are given",
         place.names.size());
  if (yaml || arguments.statistics) {
    if (!place.names.empty()) arguments.config = place.names.front();
    if (arguments.statistics) return print_statistics(arguments);
    take_place(arguments, place);
  } else if (place.names.empty() || !arguments.overrides.empty() || !arguments.source.empty()) {
    fail(ExitCode::config, "{}",
         place.names.empty() ? "path is required: name data, or a config"
                             : "--set and --source: are for a config (*.yaml)");
  }
  const DataKindRow& kind = kind_of_data(place.names);
  check_asked(arguments, kind);
  std::optional<Progress> progress;
  const StartProgress start = [&](const char* title, std::uint64_t bytes) {
    progress.emplace(title, bytes, "bytes", !arguments.quiet);
    return [&](std::uint64_t read) { progress->add(read); };
  };
  if (arguments.verify) {
    const std::vector<ShardReport> reports = kind.verify(place, start);
    progress.reset();
    return report_verified(reports);
  }
  const Description found = (arguments.print_config ? kind.config : kind.inspect)(place);
  if (found.problem.empty() && found.text.find("\nmodel: ") != std::string::npos)
    require_valid(found.text);
  fmt::print("{}", found.text);
  std::fflush(stdout);
  if (!found.problem.empty()) fail(ExitCode::data, "{}", found.problem);
}

}  // namespace

void add_data_inspect(CLI::App& data) {
  auto* const command = data.add_subcommand(
      "inspect",
      "Print the content of a data set, verify it, or write a config or statistics for it");
  const auto arguments = std::make_shared<InspectArguments>();
  DataPlace& place = arguments->place;
  command->add_option("path", place.names,
                      "Directory of shards, of splits, one shard, tokens of Megatron-LM; HDF5 "
                      "files or images in place: files, directories, patterns, archives (*.tar), "
                      "a directory of class folders; or a config (*.yaml) that trains on such");
  auto* const config = command->add_flag(
      "--config", arguments->print_config,
      "Print a config that trains on HDF5 files or images in place: also of a directory of splits "
      "(train, val or validation) of class folders");
  auto* const verify =
      command
          ->add_flag("--verify", arguments->verify,
                     "Read all of it and check checksums and ranges, decode all of every image "
                     "(exit code 3 when broken)")
          ->excludes(config);
  auto* const statistics =
      command
          ->add_flag("--statistics", arguments->statistics,
                     "Mean, deviation, range and NaN counts of every channel of a config's "
                     "data.files")
          ->excludes(config)
          ->excludes(verify);
  auto* const out = command->add_option("--out", arguments->out,
                                        "File for --statistics to write, for data.statistics");
  out->needs(statistics);
  statistics->needs(out);
  command->add_option("--preview", place.preview, "Show this many tokens or images")
      ->check(integer_from<std::uint64_t>(1))
      ->excludes(config)
      ->excludes(verify)
      ->excludes(statistics);
  command
      ->add_option("--label", place.label,
                   "Member of an image archive with a sample's label: cls, txt or json:FIELD, as "
                   "data.label (default: cls; with --config the member found)")
      ->excludes(statistics);
  add_source_option(*command, *arguments);
  add_set_option(*command, arguments->overrides);
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->footer(
      "Examples: trireme data inspect data/kjv --preview 200\n"
      "          trireme data inspect imagenet/train --verify\n"
      "          trireme data inspect --config 'imagenet/train-*.tar' > configs/imagenet.yaml\n"
      "          trireme data inspect configs/deepcam.yaml --statistics --out "
      "data/deepcam.json\n"
      "Then: data: {scaling: mean_std, statistics: data/deepcam.json}");
  on_one_process(*command, [arguments] { inspect(*arguments); });
}

void add_data_preview(CLI::App& data) {
  const auto arguments = std::make_shared<PreviewArguments>();
  auto* const command = data.add_subcommand(
      "preview",
      "Write samples as PNG files: of data.files a tile per channel, of data.images as the first "
      "epoch crops them");
  add_config_options(*command, arguments->config, arguments->overrides);
  add_source_option(*command, *arguments);
  command->add_option("--out", arguments->out, "Directory to write to")->required();
  add_value(*command, "--samples", arguments->samples, "How many, evenly spread",
            integer_between(1, 100000));
  command->footer("Example: trireme data preview configs/deepcam.yaml --out preview");
  on_one_process(*command, [arguments] {
    const Config config = config_of(*arguments);
    const auto paths =
        config.data.images.empty()
            ? write_previews(*open_files(*arguments, config, /*plain=*/false), arguments->out,
                             arguments->samples)
            : write_previews(
                  *open_image_files(image_options(config, config.data, DataPart::training),
                                    usable_cores()),
                  arguments->out, arguments->samples);
    for (const std::string& path : paths)
      fmt::print("{}\n", path);
  });
}

}  // namespace trireme
