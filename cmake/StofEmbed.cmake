# SPDX-License-Identifier: Apache-2.0
# stof_embed(FUNCTION NAMES names... FILES files... [TARGET program]): generates into the library the function
# stof::FUNCTION() of src/codegen/embedded.h, which returns the files, each under its name. With TARGET, into a program,
# which then does not take the library's.
function(stof_embed function)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TARGET" "NAMES;FILES")
  if(NOT ARG_TARGET)
    set(ARG_TARGET stof)
  endif()
  set(declarations "")
  set(rows "")
  set(index 0)
  foreach(name file IN ZIP_LISTS ARG_NAMES ARG_FILES)
    set(symbol stof_${function}_${index})
    string(APPEND declarations
      "asm(\".section .rodata\\n.balign 16\\n.hidden ${symbol}, ${symbol}_end\\n.global ${symbol}, ${symbol}_end\\n\"\n"
      "    \"${symbol}:\\n.incbin \\\"${file}\\\"\\n${symbol}_end:\\n.byte 0\\n.previous\\n\");\n"
      "extern \"C\" const char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/embedded/${ARG_TARGET}/${function}.cpp)
  if(rows)
    set(body "  static const EmbeddedFile files[] = {\n${rows}  };\n  return files;\n")
  else()
    set(body "  return {};\n")
  endif()
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
    "#include \"src/codegen/embedded.h\"\n\n${declarations}\nnamespace stof {\n\nstd::span<const EmbeddedFile> ${function}() {\n${body}}\n\n}  // namespace stof\n")
  set_source_files_properties(${source} TARGET_DIRECTORY ${ARG_TARGET} PROPERTIES OBJECT_DEPENDS "${ARG_FILES}")
  target_sources(${ARG_TARGET} PRIVATE ${source})
endfunction()
