# trireme_embed_files(output NAMESPACE a::b HEADER file.h ENTRIES name=file[,file...] ...)
#   Writes the source `output` at build time, when a file changes. For each entry it defines a function a::b::name() that returns
#   the concatenated files as std::string_view. Files are relative to the current folder.
#
# This file is also that script: cmake -DOUTPUT=... -DNAMESPACE=... -DHEADER=... -DENTRIES=... -DFOLDER=... -P
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// Written by scripts/cmake/EmbedFiles.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
  foreach(entry ${ENTRIES})
    string(REGEX MATCH "^([a-z_]+)=(.*)$" _ "${entry}")
    set(name ${CMAKE_MATCH_1})
    string(REPLACE "," ";" files "${CMAKE_MATCH_2}")
    set(literals)
    foreach(file ${files})
      # As hexadecimal: CMake lists and escapes do not change it.
      file(READ ${FOLDER}/${file} bytes HEX)
      string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
      string(APPEND literals "${bytes}\n")
    endforeach()
    string(APPEND text "std::string_view ${name}() {\n  static constexpr unsigned char bytes[] = {${literals}};\n"
      "  return {reinterpret_cast<const char*>(bytes), sizeof bytes};\n}\n")
  endforeach()
  string(APPEND text "}  // namespace ${NAMESPACE}\n")
  file(WRITE ${OUTPUT} "${text}")
  return()
endif()

set(_trireme_embed_script ${CMAKE_CURRENT_LIST_FILE})
function(trireme_embed_files output)
  cmake_parse_arguments(ARG "" "NAMESPACE;HEADER" "ENTRIES" ${ARGN})
  set(files)
  foreach(entry ${ARG_ENTRIES})
    string(REGEX REPLACE "^[a-z_]+=" "" list "${entry}")
    string(REPLACE "," ";" list "${list}")
    foreach(file ${list})
      list(APPEND files ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endforeach()
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAMESPACE=${ARG_NAMESPACE} -DHEADER=${ARG_HEADER} "-DENTRIES=${ARG_ENTRIES}"
      -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR} -P ${_trireme_embed_script}
    DEPENDS ${files} ${_trireme_embed_script}
    COMMENT "Embedding files into ${output}" VERBATIM)
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
