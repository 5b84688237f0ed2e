# trireme_harden(target module): a memory error in a module that reads files, connections or user input ends the program: fortified
# calls of the C library and stack canaries. `program` as the module: a random load address (PIE) and read-only linker tables (RELRO).
# Modules that only compute keep their flags, and so their bits and speed. Does nothing with sanitizers, which check more.
# Nothing is exported: a user's program sets its own flags.
set(TRIREME_HARDENED_MODULES base config hdf5 comm checkpoint_files checkpoint telemetry data_fields data_shards data_tokenizer data plan engine launch)
set(TRIREME_HARDENED ON)
if(TRIREME_SANITIZE)
  set(TRIREME_HARDENED OFF)
endif()
message(STATUS "  hardened            : ${TRIREME_HARDENED}")

# glibc fortifies calls only in optimised code. Distributions set another level. Level 3 needs GCC 12; with an older one glibc
# warns.
set(_fortify_level 3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(_fortify_level 2)
endif()
set(TRIREME_HARDENED_FLAGS -fstack-protector-strong
  "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${_fortify_level}>")

function(trireme_harden target module)
  if(NOT TRIREME_HARDENED)
    return()
  endif()
  if(module IN_LIST TRIREME_HARDENED_MODULES OR module STREQUAL "program")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${TRIREME_HARDENED_FLAGS}>")
  endif()
  if(module STREQUAL "program")
    # Compiled as such by CMAKE_POSITION_INDEPENDENT_CODE.
    target_link_options(${target} PRIVATE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
  endif()
endfunction()
