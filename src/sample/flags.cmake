# SPDX-License-Identifier: Apache-2.0
# The loops of these files compare floats and choose; gcc makes vectors of them only when it may
# evaluate both sides, that is when floating-point exceptions are nobody's business. No value changes.
set_source_files_properties(
    ${PROJECT_SOURCE_DIR}/src/sample/row.c ${PROJECT_SOURCE_DIR}/src/sample/cut.c
    ${PROJECT_SOURCE_DIR}/src/sample/draw.c PROPERTIES COMPILE_OPTIONS -fno-trapping-math)
