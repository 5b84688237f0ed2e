# Compile flags: every target of ours links trireme_flags.
add_library(trireme_flags INTERFACE)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(TRIREME_CXX_FLAGS
  -Wall -Wextra -Wconversion
  # GCC 12 warns of overlapping copies inside std::string's assign and operator+ (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # GCC 12 warns of the deliberately undefined operands of its AVX-512 intrinsics (GCC bug 105593), GCC 14 of vectors inside
  # an optional.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized;-Wno-maybe-uninitialized>
  # To GCC every source of a unity build is a header, and it warns of classes there with members of internal types.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${TRIREME_UNITY}>>:-Wno-subobject-linkage>
  $<$<BOOL:${TRIREME_WERROR}>:-Werror>
  -march=${TRIREME_CPU_ARCH} -fno-math-errno -fno-trapping-math -fopenmp-simd
  # GCC's garbage collector takes a fifth of the time of a source that needs 300 MB.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>
  $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
target_compile_options(trireme_flags INTERFACE "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:${TRIREME_CXX_FLAGS}>")
if(TRIREME_SANITIZE)
  list(JOIN TRIREME_SANITIZE "," _sanitizers)
  target_compile_options(trireme_flags INTERFACE -fsanitize=${_sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(trireme_flags INTERFACE -fsanitize=${_sanitizers})
endif()
if(TRIREME_FUZZ)
  target_compile_options(trireme_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# For targets that do not compute in a step: compiles in 60 % of the time of -O3. Not -Og: the linker keeps one copy of a
# template that several modules use, and the JSON reader took twice the time.
add_library(trireme_quick_compile INTERFACE)
target_compile_options(trireme_quick_compile INTERFACE "$<$<AND:$<CONFIG:Release,RelWithDebInfo>,$<COMPILE_LANGUAGE:CXX>>:-O1>")

# trireme_unity(target [ARITHMETIC pattern]): with TRIREME_UNITY several sources are compiled at once and share
#   the headers. Not sources with a path that matches the pattern: inlining decides which multiplications and additions the
#   compiler fuses, and so the bits of a step.
function(trireme_unity target)
  cmake_parse_arguments(ARG "" "ARITHMETIC" "" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TRIREME_UNITY} UNITY_BUILD_BATCH_SIZE 10)
  if(ARG_ARITHMETIC)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX ${ARG_ARITHMETIC})
    set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
