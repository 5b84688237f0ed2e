// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/checkpoint_command.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "launch/job/state_text.h"
#include "launch/job/weight_exchange.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/names.h"
#include "runtime/checkpoint/stored_values.h"
#include "runtime/checkpoint/verify.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// What the user names: a checkpoint, a run, or a run's directory of checkpoints. Oldest first.
std::vector<std::string> checkpoints_at(const std::string& path) {
  if (fs::exists(path + "/" + std::string(manifest_name))) return {path};
  const bool run = fs::is_directory(path + "/checkpoints");
  std::vector<std::string> paths;
  for (const StepDirectory& found : list_checkpoints(run ? path + "/checkpoints" : path))
    paths.push_back(found.path);
  if (paths.empty())
    fail(ExitCode::checkpoint,
         "{}: holds no checkpoint; name a directory step_<8 digits>, or a run that has some", path);
  return paths;
}

void inspect(const std::string& path, bool tensors, bool whole_config) {
  const FoundCheckpoint found = open_checkpoint(checkpoints_at(path).back());
  const Manifest& manifest = found.manifest;
  const MeshShape& mesh = manifest.mesh;
  std::vector<std::string_view> kinds;
  for (const ValueKind kind : manifest.kinds)
    kinds.push_back(name_of(kind));
  fmt::print("{}\n", found.path);
  fmt::print("step      {}\n", found.step);
  fmt::print("layout    data {} x tensor {} x pipeline {}, ZeRO {}\n", mesh.data, mesh.tensor,
             mesh.pipeline, manifest.zero);
  fmt::print("values    {}\n", fmt::join(kinds, ", "));
  fmt::print("size      {:.1f} MB in {} file{}\n",
             static_cast<double>(manifest.value_bytes()) * 1e-6, manifest.files.size(),
             manifest.files.size() == 1 ? "" : "s");
  for (const auto& [name, bytes] : manifest.scalars)
    fmt::print("{:<9} {}\n", name, bytes);
  fmt::print("{}", describe_state(manifest.state, whole_config));
  fmt::print("tensors   {}\n", manifest.tensors.size());
  if (!tensors) return;
  for (const ManifestTensor& tensor : manifest.tensors) {
    fmt::print("  {:<40} {:<20} {}{}\n", tensor.name, tensor.shape.to_string(),
               tensor.kind == ParamKind::weight ? "weight" : "statistic",
               tensor.blocking.blocks > 1
                   ? fmt::format(", in {} tensor blocks", tensor.blocking.blocks)
                   : "");
  }
}

void verify(const std::string& path) {
  std::size_t broken = 0;
  std::string first;
  const std::vector<std::string> all = checkpoints_at(path);
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

// One kind of value of two checkpoints, tensor by tensor.
class Comparison {
 public:
  Comparison(const FoundCheckpoint& a, const FoundCheckpoint& b) : a_(a), b_(b) {}

  void compare(ValueKind kind) {
    const StoredValues left = values_of(a_, kind), right = values_of(b_, kind);
    StoredReader left_reader(left), right_reader(right);
    std::set<std::string> names;
    for (const StoredValues* const side : {&left, &right}) {
      for (const auto& [name, tensor] : side->tensors)
        names.insert(name);
    }
    for (const std::string& name : names) {
      const auto l = left.tensors.find(name), r = right.tensors.find(name);
      ++tensors_;
      if (l == left.tensors.end() || r == right.tensors.end()) {
        report(kind, name, fmt::format("only in {}", l == left.tensors.end() ? b_.path : a_.path));
      } else if (l->second.shape != r->second.shape) {
        report(kind, name,
               fmt::format("{} and {}", l->second.shape.to_string(), r->second.shape.to_string()));
      } else {
        compare(kind, name, left_reader.whole(l->second), right_reader.whole(r->second));
      }
    }
  }

  [[nodiscard]] int tensors() const { return tensors_; }
  [[nodiscard]] int differing() const { return differing_; }

 private:
  static StoredValues values_of(const FoundCheckpoint& from, ValueKind kind) {
    return from.manifest.has(kind) ? stored_values(from.path, from.manifest, kind) : StoredValues{};
  }

  void compare(ValueKind kind, const std::string& name, const std::vector<float>& left,
               const std::vector<float>& right) {
    std::size_t elements = 0;
    double largest = 0;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(left[i]) == std::bit_cast<std::uint32_t>(right[i])) continue;
      ++elements;
      const double difference = std::abs(double{left[i]} - double{right[i]});
      // A NaN on one side stays the largest.
      if (!(difference <= largest)) largest = difference;
    }
    if (elements > 0)
      report(
          kind, name,
          fmt::format("{} of {} elements differ, by up to {:.9g}", elements, left.size(), largest));
  }

  void report(ValueKind kind, const std::string& name, const std::string& what) {
    ++differing_;
    fmt::print("{}/{}: {}\n", name_of(kind), name, what);
  }

  const FoundCheckpoint& a_;
  const FoundCheckpoint& b_;
  int tensors_ = 0, differing_ = 0;
};

void diff(const std::string& left, const std::string& right) {
  const FoundCheckpoint a = open_checkpoint(checkpoints_at(left).back());
  const FoundCheckpoint b = open_checkpoint(checkpoints_at(right).back());
  Comparison comparison(a, b);
  for (const ValueKind kind : value_kinds)
    comparison.compare(kind);
  if (a.manifest.scalars != b.manifest.scalars) fmt::print("scalars differ\n");
  if (comparison.differing() == 0 && a.manifest.scalars == b.manifest.scalars) {
    fmt::print("{} tensors equal\n", comparison.tensors());
    return;
  }
  std::fflush(stdout);
  fail(ExitCode::internal, "{} of {} tensors differ between {} and {}", comparison.differing(),
       comparison.tensors(), a.path, b.path);
}

// The config of the run that a checkpoint or a weights file lies in.
Config config_for(const std::string& path, const std::string& given) {
  if (!given.empty()) return load_config(given, {});
  fs::path directory = fs::absolute(path).lexically_normal();
  for (int level = 0; level < 4; ++level, directory = directory.parent_path()) {
    if (fs::exists(directory / "config.yaml"))
      return load_config((directory / "config.yaml").string(), {});
  }
  fail(ExitCode::config, "{}: no config.yaml in the directories above it; give --config", path);
}

struct ExchangeArguments {
  std::string from, config, out;
  bool average = false;
};

void run_export(const ExchangeArguments& arguments) {
  const std::string from =
      fs::is_regular_file(arguments.from) ? arguments.from : checkpoints_at(arguments.from).back();
  export_weights(from, config_for(from, arguments.config), arguments.out, arguments.average);
}

void add_inspect(CLI::App& checkpoint) {
  struct Arguments {
    std::string path;
    bool tensors = false, config = false;
  };
  auto* const command = checkpoint.add_subcommand("inspect", "Print what a checkpoint holds");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("path", arguments->path, "Checkpoint, or a run (its newest)")->required();
  command->add_flag("--tensors", arguments->tensors, "List every tensor");
  command->add_flag("--config", arguments->config, "List every key of the run's config");
  command->footer("Example: trireme checkpoint inspect runs/gpt_tiny --tensors");
  command->callback(
      [arguments] { inspect(arguments->path, arguments->tensors, arguments->config); });
}

void add_verify(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "verify", "Read all of a checkpoint and compare its checksums (exit code 4 when damaged)");
  const auto path = std::make_shared<std::string>();
  command->add_option("path", *path, "Checkpoint, or a run (all of its)")->required();
  command->footer("Example: trireme checkpoint verify runs/gpt_tiny");
  command->callback([path] { verify(*path); });
}

void add_diff(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "diff",
      "Compare the values of two checkpoints of any layouts (exit code 1 when they differ)");
  const auto paths = std::make_shared<std::array<std::string, 2>>();
  command->add_option("a", (*paths)[0], "Checkpoint, or a run (its newest)")->required();
  command->add_option("b", (*paths)[1], "The other")->required();
  command->footer("Example: trireme checkpoint diff runs/a runs/b/checkpoints/step_00000100");
  command->callback([paths] { diff((*paths)[0], (*paths)[1]); });
}

void add_export(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "export", "Write model.safetensors and config.json for Hugging Face's libraries");
  const auto arguments = std::make_shared<ExchangeArguments>();
  command
      ->add_option("from", arguments->from,
                   "Checkpoint, a run (its newest), or a weights.safetensors")
      ->required();
  command->add_option("--out", arguments->out, "Directory to make")->required();
  command->add_option("--config", arguments->config,
                      "Config of the model (default: config.yaml of the run)");
  command->add_flag("--average", arguments->average, "The averaged weights (train.ema_decay)");
  command->footer("Example: trireme checkpoint export runs/gpt_tiny --out exported");
  command->callback([arguments] { run_export(*arguments); });
}

void add_import(CLI::App& checkpoint) {
  auto* const command = checkpoint.add_subcommand(
      "import", "Make a weights file of ours from Hugging Face's safetensors");
  const auto arguments = std::make_shared<ExchangeArguments>();
  command
      ->add_option("from", arguments->from,
                   "A .safetensors file, a .safetensors.index.json, or a directory of either")
      ->required();
  command->add_option("--config", arguments->config, "Config of the model")->required();
  command->add_option("--out", arguments->out, "File to write")->required();
  command->footer(
      "Example: trireme checkpoint import gpt2/ --config configs/gpt2_124m.yaml --out "
      "gpt2.safetensors");
  command->callback([arguments] {
    import_weights(arguments->from, load_config(arguments->config, {}), arguments->out);
  });
}

}  // namespace

void add_checkpoint_commands(CLI::App& app) {
  auto* const checkpoint =
      app.add_subcommand("checkpoint", "Inspect, verify and compare checkpoints; exchange weights");
  checkpoint->require_subcommand(1);
  checkpoint->footer("Example: trireme checkpoint inspect runs/gpt_tiny");
  add_inspect(*checkpoint);
  add_verify(*checkpoint);
  add_diff(*checkpoint);
  add_export(*checkpoint);
  add_import(*checkpoint);
}

}  // namespace trireme
