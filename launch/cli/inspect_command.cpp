// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/one_process.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "data/images/image_sources.h"
#include "data/images/inspect_images.h"
#include "data/images/verify_images.h"
#include "data/inspect.h"
#include "data/megatron/index.h"
#include "data/pack/parallel.h"
#include "data/pack/progress.h"
#include "data/sets/dataset.h"
#include "data/shard/shard_set.h"
#include "data/verify.h"
#include "launch/cli/number_check.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// Of images in place: which member of an archive has the label.
void add_label_option(CLI::App& command, std::string& label) {
  command
      .add_option("--label", label,
                  "Member of an archive of images that has a sample's label: cls, txt or "
                  "json:FIELD, as data.label")
      ->capture_default_str();
}

constexpr const char* any_data_set =
    "Directory of shards, of splits, one shard, tokens of Megatron-LM, or images in place: "
    "archives "
    "(*.tar, directories of them, patterns) or a directory of class folders";

std::vector<std::string> files_to_verify(const std::string& path) {
  if (const auto index = find_megatron_index(path))
    return {std::filesystem::path(*index).replace_extension(".bin").string()};
  return list_shards(path, "").paths;
}

std::vector<ShardReport> verify_packed(const std::string& path, bool quiet) {
  std::vector<ShardReport> all;
  for (const std::string& directory : find_datasets(path)) {
    std::uint64_t bytes = 0;
    for (const std::string& file : files_to_verify(directory)) {
      std::error_code unknown;
      const auto size = std::filesystem::file_size(file, unknown);
      if (!unknown) bytes += size;
    }
    Progress progress("verifying", bytes, "bytes", !quiet);
    const std::vector<ShardReport> reports =
        verify_dataset(directory, [&](std::uint64_t read) { progress.add(read); });
    all.insert(all.end(), reports.begin(), reports.end());
  }
  return all;
}

std::vector<ShardReport> verify_in_place(const std::string& path, const std::string& label,
                                         bool quiet) {
  ImageVerifier verifier({path}, label_rule(label), usable_cores());
  Progress progress("decoding", verifier.bytes(), "bytes", !quiet);
  return verifier.run([&](std::uint64_t read) { progress.add(read); });
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

}  // namespace

void add_data_inspect(CLI::App& data) {
  struct Arguments {
    std::string path, label = "cls";
    std::uint64_t preview = 0;
  };
  auto* const command = data.add_subcommand("inspect", "Print what a data set holds");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("path", arguments->path, any_data_set)->required();
  command->add_option("--preview", arguments->preview, "Show this many tokens or images")
      ->check(integer_from<std::uint64_t>(1));
  add_label_option(*command, arguments->label);
  command->footer(
      "Examples: trireme data inspect data/kjv --preview 200\n"
      "          trireme data inspect 'imagenet/train-*.tar'");
  on_one_process(*command, [arguments] {
    if (names_images(arguments->path)) {
      fmt::print("{}", inspect_images({arguments->path}, label_rule(arguments->label),
                                      arguments->preview, usable_cores()));
      return;
    }
    for (const std::string& path : find_datasets(arguments->path)) {
      fmt::print("{}", describe_dataset(path, arguments->preview));
    }
  });
}

void add_data_verify(CLI::App& data) {
  struct Arguments {
    std::string path, label = "cls";
    bool quiet = false;
  };
  auto* const command = data.add_subcommand(
      "verify",
      "Read all of a data set and check checksums and ranges, decode all of every image (exit code "
      "3 when broken)");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("path", arguments->path, any_data_set)->required();
  add_label_option(*command, arguments->label);
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->footer(
      "Examples: trireme data verify data/kjv\n"
      "          trireme data verify imagenet/train");
  on_one_process(*command, [arguments] {
    const auto& [path, label, quiet] = *arguments;
    report_verified(names_images(path) ? verify_in_place(path, label, quiet)
                                       : verify_packed(path, quiet));
  });
}

}  // namespace trireme
