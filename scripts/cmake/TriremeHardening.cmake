# trireme_harden(target room): what makes an error of memory in a room that reads files, connections or users' words end the
# program instead of handing it over: fortified calls of the C library, canaries on the stack. `program` as the room: an address
# of its own at every start, and tables of the linker that are read-only from then on. Rooms that only compute keep their flags, so that
# their bits and their speed stay. Nothing with sanitizers, which watch the same and more.
# What a user's own program links, it hardens by its own flags: nothing of this is exported.
set(TRIREME_HARDENED_ROOMS base config hdf5 comm checkpoint_files checkpoint telemetry data_fields data_shards data_tokenizer data plan engine launch)
set(TRIREME_HARDENED ON)
if(TRIREME_SANITIZE)
  set(TRIREME_HARDENED OFF)
endif()
message(STATUS "  hardened            : ${TRIREME_HARDENED}")

# glibc fortifies calls only where the compiler optimises. Distributions set a level of their own. GCC knows the third from 12 on,
# and glibc warns where it is asked for of an older one.
set(_fortify_level 3)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  set(_fortify_level 2)
endif()
set(TRIREME_HARDENED_FLAGS -fstack-protector-strong
  "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${_fortify_level}>")

function(trireme_harden target room)
  if(NOT TRIREME_HARDENED)
    return()
  endif()
  if(room IN_LIST TRIREME_HARDENED_ROOMS OR room STREQUAL "program")
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${TRIREME_HARDENED_FLAGS}>")
  endif()
  if(room STREQUAL "program")
    # Compiled as such by CMAKE_POSITION_INDEPENDENT_CODE.
    target_link_options(${target} PRIVATE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
  endif()
endfunction()
