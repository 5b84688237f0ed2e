// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <numeric>

#include "launch/cli/shared_options.h"
#include "launch/exchange/state_text.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/checkpoint/restore/verify.h"
#include "runtime/telemetry/advice.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// `path`: a checkpoint, a run, or a run's checkpoint directory. Oldest first.
std::vector<std::string> checkpoints_at(const std::string& path) {
  if (fs::exists(path + "/" + std::string(manifest_name))) return {path};
  if (fs::is_regular_file(path)) return {};
  const bool run = fs::is_directory(path + "/checkpoints");
  std::vector<std::string> paths;
  for (const StepDirectory& found : list_checkpoints(run ? path + "/checkpoints" : path))
    paths.push_back(found.path);
  return paths;
}

// For a run without checkpoints, or a weights file.
void inspect_weights(const std::string& path, bool tensors) {
  const RunState state = find_state(path, *make_single_communicator());
  const WeightFiles files(state.path);
  fmt::print("{}\n", state.path);
  fmt::print("step      {}\n", state.step ? fmt::format("{}", *state.step) : "not known");
  fmt::print("values    model{}\n", state.has(ValueKind::average) ? ", average" : "");
  fmt::print("tensors   {}\n", files.names().size());
  if (!tensors) return;
  for (const std::string& name : files.names())
    fmt::print("  {:<40} {}\n", name, files.file_of(name).shape(name).to_string());
}

void inspect(const std::string& path, bool tensors, bool whole_config) {
  const std::vector<std::string> all = checkpoints_at(path);
  if (all.empty()) return inspect_weights(path, tensors);
  const FoundCheckpoint found = open_checkpoint(all.back());
  const Manifest& manifest = found.manifest;
  const MeshShape& mesh = manifest.mesh;
  std::vector<std::string_view> kinds;
  for (const ValueKind kind : manifest.kinds)
    kinds.push_back(name_of(kind));
  fmt::print("{}\n", found.path);
  fmt::print("step      {}\n", found.step);
  const int context = std::gcd(context_ranks(manifest.state), mesh.data);
  fmt::print("layout    data {}{} x {} {} x pipeline {}, ZeRO {}\n", mesh.data / context,
             context > 1 ? fmt::format(" x context {}", context) : "",
             inner_axis(cuts_samples(manifest.state)), mesh.tensor, mesh.pipeline, manifest.zero);
  fmt::print("values    {}\n", fmt::join(kinds, ", "));
  fmt::print("size      {:.1f} MB in {} file{}\n",
             static_cast<double>(manifest.value_bytes()) * 1e-6, manifest.files.size(),
             manifest.files.size() == 1 ? "" : "s");
  for (const auto& [name, digits] : manifest.scalars)
    fmt::print("{:<9} {} bytes\n", name, digits.size() / 2);
  fmt::print("{}", describe_state(manifest.state, whole_config));
  fmt::print("tensors   {}\n", manifest.tensors.size());
  if (!tensors) return;
  for (const ManifestTensor& tensor : manifest.tensors) {
    fmt::print(
        "  {:<40} {:<20} {}{}\n", tensor.name, tensor.shape.to_string(), name_of(tensor.kind),
        tensor.blocking.blocks > 1 ? fmt::format(", in {} tensor blocks", tensor.blocking.blocks)
                                   : "");
  }
}

void verify(const std::string& path) {
  std::size_t broken = 0;
  std::string first;
  const std::vector<std::string> all = checkpoints_at(path);
  if (all.empty())
    fail(ExitCode::checkpoint,
         "{}: holds no checkpoint, and weights alone have no checksums; name a directory step_<8 "
         "digits>, or a run that has some",
         path);
  for (const std::string& checkpoint : all) {
    std::vector<std::string> problems;
    std::uint64_t bytes = 0;
    try {
      const FoundCheckpoint found = open_checkpoint(checkpoint);
      bytes = found.manifest.value_bytes();
      for (const Damage& damage : verify_checkpoint(checkpoint, found.manifest))
        problems.push_back(checkpoint + "/" + damage.describe());
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
    if (problems.empty()) {
      fmt::print("{}: good ({:.1f} MB)\n", checkpoint, static_cast<double>(bytes) * 1e-6);
      continue;
    }
    fmt::print("{}: DAMAGED\n  {}\n", checkpoint, fmt::join(problems, "\n  "));
    if (broken++ == 0) first = problems.front();
  }
  if (broken == 0) return;
  std::fflush(stdout);
  fail(ExitCode::checkpoint, "{} of {} checkpoints {} damaged; the first: {}", broken, all.size(),
       broken == 1 ? "is" : "are", first);
}

void diff(const std::string& left, const std::string& right) {
  const auto alone = make_single_communicator();
  const RunState a = find_state(left, *alone, AtEqualSteps::checkpoint);
  const RunState b = find_state(right, *alone, AtEqualSteps::checkpoint);
  fmt::print("a  {}\nb  {}\n", a.describe(), b.describe());
  const StateDifference found = print_difference(a, b);
  if (found.none()) {
    fmt::print("{} tensors equal\n", found.tensors);
    return;
  }
  std::fflush(stdout);
  fail(ExitCode::internal, "{} of {} tensors differ between {} and {}", found.differing,
       found.tensors, a.path, b.path);
}

struct InspectArguments {
  std::string path, other;
  bool tensors = false, config = false, verify = false;
};

void add_inspect(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "inspect", "Print the content of a checkpoint or weights file, verify it, or compare two");
  const auto arguments = std::make_shared<InspectArguments>();
  command
      ->add_option("path", arguments->path,
                   "A checkpoint, a weights file, or a run (its newest "
                   "checkpoint, else its weights)")
      ->required();
  auto* const other = command->add_option(
      "other", arguments->other,
      "Compare the values with those of this one, of any layout (exit code 1 when they differ)");
  auto* const tensors = command->add_flag("--tensors", arguments->tensors, "List every tensor");
  auto* const config =
      command->add_flag("--config", arguments->config, "List every key of the run's config");
  auto* const verified =
      command->add_flag("--verify", arguments->verify,
                        "Read all of a checkpoint, or of all checkpoints of a run, and compare its "
                        "checksums instead (exit code 4 when damaged)");
  for (auto* const option : {other, tensors, config})
    verified->excludes(option);
  for (auto* const option : {tensors, config})
    other->excludes(option);
  command->footer(
      "Example: trireme checkpoint inspect runs/gpt_tiny --tensors\n"
      "Example: trireme checkpoint inspect runs/gpt_tiny --verify\n"
      "Example: trireme checkpoint inspect runs/a runs/b/checkpoints/step_00000100");
  on_one_process(*command, [arguments] {
    if (arguments->verify) return verify(arguments->path);
    if (!arguments->other.empty()) return diff(arguments->path, arguments->other);
    inspect(arguments->path, arguments->tensors, arguments->config);
  });
}

}  // namespace

void add_checkpoint_commands(CLI::App& app) {
  auto* const checkpoint =
      app.add_subcommand("checkpoint", "Inspect, verify and compare checkpoints; exchange weights");
  checkpoint->require_subcommand(1);
  checkpoint->footer("Example: trireme checkpoint inspect runs/gpt_tiny");
  add_inspect(*checkpoint);
  add_exchange_commands(*checkpoint);
}

}  // namespace trireme
