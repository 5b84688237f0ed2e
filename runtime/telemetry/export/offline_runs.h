// SPDX-License-Identifier: Apache-2.0
// Which directories of W&B and MLflow are this run's: a run directory may be one where others keep
// theirs too (run.directory: .), and those are neither gone on with nor removed.
#pragma once

#include <string>

namespace trireme {

// The directory of the experiment that all runs belong to: its number. Being the same everywhere,
// runs of several directories are gathered by copying their mlruns/ into one.
inline constexpr const char* mlflow_experiment = "734811";

// 16 hexadecimal digits behind a word of ours.
[[nodiscard]] std::string new_run_id();
// "offline-run-20261122_120102-trireme0123456789abcdef"
[[nodiscard]] bool is_wandb_run(const std::string& name);
// "trireme0123456789abcdef"
[[nodiscard]] bool is_mlflow_run(const std::string& name);

// The name of the last directory in `parent` for which `ours` holds; "" for none.
[[nodiscard]] std::string offline_run_in(const std::string& parent,
                                         bool (*ours)(const std::string& name));

// Removes the runs of these names below a run directory, and the directories around them that are
// empty then.
void remove_offline_runs(const std::string& directory);

}  // namespace trireme
