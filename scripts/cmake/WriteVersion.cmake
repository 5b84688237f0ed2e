# cmake -DSOURCE=... -DOUTPUT=... -DVERSION=... ... -P WriteVersion.cmake
#   Writes the version header at build time: it names the built commit, not the configured one. An unchanged header keeps its
#   time stamp: nothing is rebuilt.
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 git -C ${SOURCE} describe --tags --always --dirty --abbrev=12
  OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(revision "no git revision")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[// Written by scripts/cmake/WriteVersion.cmake.
#pragma once

namespace trireme::build {
inline constexpr const char* version = "@VERSION@";
inline constexpr const char* revision = "@revision@";
inline constexpr const char* no_revision = "no git revision";
inline constexpr const char* compiler = "@COMPILER@";
inline constexpr const char* type = "@TYPE@";
inline constexpr const char* architecture = "@ARCH@";
inline constexpr const char* sanitizers = "@SANITIZE@";
}  // namespace trireme::build
]])
