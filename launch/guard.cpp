// SPDX-License-Identifier: Apache-2.0
#include "launch/guard.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <thread>

#include "launch/cli/shared_options.h"
#include "launch/standard_streams.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/comm/mpi.h"
#include "runtime/device/cpu/cpu_features.h"
#include "runtime/device/gpu_environment.h"

namespace trireme {
namespace {

[[noreturn]] void end_job(ExitCode code, const std::string& message) {
  // Most errors (config, data) occur on all ranks: rank 0 then prints and ends the job before the
  // others do, which takes it some tenths of a second while MPI is not up.
  if (launcher_rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  print_error(message);
  abort_job(static_cast<int>(code));
}

}  // namespace

int launcher_rank() {
  return launched_rank().value_or(0);
}

int guarded_main(const std::function<int()>& body) {
  prepare_gpu_environment();
  open_standard_streams();
  // Then a file size limit (ulimit -f) fails the write, which names the file, instead of killing
  // the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    check_cpu_supports_build();
    const int code = body();
    if (const int lost = flush_output(); code == 0 && lost != 0)
      fail(ExitCode::internal, "standard output cannot be written to: {}", std::strerror(lost));
    return code;
  } catch (const Error& error) {
    end_job(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end_job(ExitCode::internal, "out of host memory");
  } catch (const std::exception& error) {
    end_job(ExitCode::internal, error.what());
  }
}

int parse_and_run(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> words = with_current_commands({argv + 1, argv + argc});
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return static_cast<int>(ExitCode::ok);
  } catch (const CLI::Success& help_or_version) {
    if (launcher_rank() != 0) return 0;
    std::ostringstream text;
    const int code = app.exit(help_or_version, text, text);
    fmt::print("{}", text.str());
    return code;
  } catch (
      const CLI::RuntimeError& ended) {  // raised by the command itself, which printed the reason
    return end_job_alike(ended.get_exit_code());
  } catch (const CLI::ParseError& error) {
    fail(ExitCode::config, "{}\nRun with --help for more information.",
         usage_advice(app, words, error));
  }
}

}  // namespace trireme
