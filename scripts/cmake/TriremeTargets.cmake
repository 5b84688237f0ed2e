# How our code is compiled: trireme_flags, which every target of ours links.
add_library(trireme_flags INTERFACE)
target_include_directories(trireme_flags INTERFACE ${PROJECT_SOURCE_DIR})
set(TRIREME_CXX_FLAGS
  -Wall -Wextra -Wconversion
  # GCC 12 warns of overlapping copies inside std::string's own assign and operator+ (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # GCC 12 warns of the deliberately undefined operands of its own AVX-512 intrinsics (GCC bug 105593).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-uninitialized;-Wno-maybe-uninitialized>
  $<$<BOOL:${TRIREME_WERROR}>:-Werror>
  -march=${TRIREME_CPU_ARCH} -fno-math-errno -fno-trapping-math -fopenmp-simd
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
