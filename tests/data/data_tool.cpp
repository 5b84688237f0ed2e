// SPDX-License-Identifier: Apache-2.0
// `trireme data` and `trireme bench data` alone, without MPI: the process that tests run.
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <exception>

#include "data/hdf5/child.h"
#include "launch/cli/commands.h"
#include "runtime/base/error.h"

int main(int argc, char** argv) {
  trireme::serve_hdf5_child(argc, argv);
  std::signal(SIGXFSZ, SIG_IGN);  // as the program does
  CLI::App app{"Data commands"};
  app.require_subcommand(1);
  trireme::add_data_commands(app);
  trireme::add_bench_data(*app.add_subcommand("bench", "Measure reading"));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(trireme::ExitCode::config);
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(trireme::ExitCode::internal);
  }
  return 0;
}
