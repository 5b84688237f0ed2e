// SPDX-License-Identifier: Apache-2.0
#include "launch/study/scale/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "runtime/base/line_reader.h"

namespace trireme::scale {

namespace fs = std::filesystem;

bool in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::istringstream places(path == nullptr ? "" : path);
  for (std::string place; std::getline(places, place, ':');) {
    if (::access((place + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string own_binary() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) fail(ExitCode::internal, "/proc/self/exe: {}", error.message());
  return path.string();
}

std::string own_script(const std::string& name) {
  std::vector<fs::path> places;
  if (const char* const home = std::getenv("TRIREME_HOME")) places.emplace_back(home);
  for (fs::path place = fs::path(own_binary()).parent_path(); place != place.parent_path();
       place = place.parent_path())
    places.push_back(place);
  for (const fs::path& place : places) {
    for (const fs::path& below : {place, place / "share" / "trireme"}) {
      const fs::path script = below / name;
      if (::access(script.c_str(), R_OK) == 0) return script.string();
    }
  }
  return {};
}

std::string required_script(const std::string& name) {
  std::string script = own_script("launch/" + name);
  if (script.empty()) {
    fail(ExitCode::config,
         "launch/{} is in no directory above {}; set TRIREME_HOME to the repository", name,
         own_binary());
  }
  return script;
}

std::vector<std::string> Launcher::command(int ranks, const std::vector<std::string>& arguments,
                                           const std::string& job_log) const {
  std::vector<std::string> words;
  const std::string count = fmt::format("{}", ranks);
  switch (kind) {
    case LauncherKind::mpirun:
      words = {required_script("mpi_run.sh"), "-np", count};
      break;
    case LauncherKind::srun:
      words = {required_script("slurm/step_run.sh"), count};
      break;
    case LauncherKind::sbatch:
      // A run that is started again would be measured from its checkpoint.
      words = {"sbatch",
               "--wait",
               "--parsable",
               "--no-requeue",
               "--ntasks=" + count,
               "--job-name=" + job_name,
               "--output=" + job_log};
      break;
  }
  words.insert(words.end(), options.begin(), options.end());
  if (kind == LauncherKind::srun) words.emplace_back("--");
  // The batch script adds `train` itself.
  words.push_back(kind == LauncherKind::sbatch ? required_script("slurm/train.sbatch")
                                               : own_binary());
  words.insert(words.end(), arguments.begin() + (kind == LauncherKind::sbatch ? 1 : 0),
               arguments.end());
  return words;
}

std::string Launcher::slurm_job_of(const std::string& log) {
  std::error_code error;
  if (!fs::is_regular_file(log, error)) return {};
  LineReader lines(log);
  // "1234", or "1234;cluster".
  while (const auto line = lines.next()) {
    const std::string_view number = line->substr(0, line->find(';'));
    if (!number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos)
      return std::string(number);
  }
  return {};
}

Launcher make_launcher(const std::string& name, const std::string& options) {
  Launcher launcher;
  launcher.kind = name == "srun"     ? LauncherKind::srun
                  : name == "sbatch" ? LauncherKind::sbatch
                                     : LauncherKind::mpirun;
  std::istringstream words(options);
  for (std::string word; words >> word;)
    launcher.options.push_back(word);
  if (!in_path(name)) {
    fail(ExitCode::config, "--launcher: there is no {} in PATH; use {}", name,
         name == "mpirun" ? "srun or sbatch where Slurm is" : "mpirun, or load Slurm's module");
  }
  if (launcher.kind == LauncherKind::srun && std::getenv("SLURM_JOB_ID") == nullptr) {
    fail(
        ExitCode::config,
        "--launcher: srun starts runs inside an allocation, and this is none; use salloc or sbatch "
        "around this command, or --launcher sbatch");
  }
  return launcher;
}

}  // namespace trireme::scale
