# SPDX-License-Identifier: Apache-2.0
# Writes HEADER, which says what is built: the commit of SOURCE, "-dirty" behind it when files differ. An unchanged
# header stays as it is.
#   cmake -DSOURCE=dir -DHEADER=file -P write_commit.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=7 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT "#define STOF_COMMIT \"@commit@\"\n")
