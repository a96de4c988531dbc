# SPDX-License-Identifier: Apache-2.0
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/engine/version.c PROPERTIES
    COMPILE_DEFINITIONS TDM_VERSION="${PROJECT_VERSION}")
