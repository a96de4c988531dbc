# SPDX-License-Identifier: Apache-2.0
# libtandem.so, and what `cmake --install` puts where: command, library, header, tandem.pc, CMake package, man pages.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The library is drawn from the rooms' archives by its exported names alone: each name of the version script is
# asked for with -u, the linker follows from there, and what the public calls do not reach stays out.
function(tdm_shared_library)
    set(map ${PROJECT_SOURCE_DIR}/cmake/libtandem.map)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${map})
    file(STRINGS ${map} exports REGEX "^ +tdm_[a-z0-9_]+;$")
    add_library(tandem_shared SHARED $<TARGET_OBJECTS:tdm_base>)
    foreach(export ${exports})
        string(REGEX REPLACE "[ ;]" "" name ${export})
        target_link_options(tandem_shared PRIVATE LINKER:--undefined=${name})
    endforeach()
    target_link_options(tandem_shared PRIVATE LINKER:--version-script=${map} LINKER:--as-needed LINKER:--gc-sections)
    if(NOT TDM_SANITIZE)
        target_link_options(tandem_shared PRIVATE LINKER:-z,defs)
    endif()
    target_link_libraries(tandem_shared PRIVATE tdm_cli)
    target_include_directories(tandem_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(tandem_shared PROPERTIES OUTPUT_NAME tandem EXPORT_NAME tandem
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
endfunction()

function(tdm_install)
    # The way back from the .pc file's folder, so that an installed tree can be moved.
    file(RELATIVE_PATH TDM_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/tandem.pc.in ${PROJECT_BINARY_DIR}/tandem.pc @ONLY)
    configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandem-config.cmake.in
        ${PROJECT_BINARY_DIR}/tandem-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/tandem-config-version.cmake
        COMPATIBILITY SameMinorVersion)
    install(TARGETS tandem RUNTIME)
    install(TARGETS tandem_shared EXPORT tandem-targets LIBRARY)
    install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
    install(FILES ${PROJECT_BINARY_DIR}/tandem-config.cmake ${PROJECT_BINARY_DIR}/tandem-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
    install(FILES ${PROJECT_BINARY_DIR}/tandem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(FILES ${PROJECT_SOURCE_DIR}/include/tandem/tandem.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem)
    # Written by the command from its table of options (`tandem help-man`, `help-bash`); the package test compares.
    install(FILES ${PROJECT_SOURCE_DIR}/docs/man/tandem.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${PROJECT_SOURCE_DIR}/docs/completion/tandem.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tandem)
endfunction()

# Tests in Python: FOLDER's test_*.py, each its own process, with the build folder in TDM_BINARY_DIR.
function(tdm_python_tests folder label)
    find_package(Python3 COMPONENTS Interpreter REQUIRED)
    file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/test_*.py)
    foreach(test ${tests})
        get_filename_component(stem ${test} NAME_WE)
        if(CMAKE_CROSSCOMPILING AND NOT stem STREQUAL "test_goldens")
            continue() # the others start the command, or compilers, in ways that no emulator stands in for
        endif()
        if(stem STREQUAL "test_examples" AND TDM_SANITIZE)
            continue() # the examples link the shared library, which is built without sanitizers
        endif()
        string(REPLACE ";" " " emulator "${CMAKE_CROSSCOMPILING_EMULATOR}")
        add_test(NAME ${label}_${stem} COMMAND ${Python3_EXECUTABLE} -B ${test})
        set_tests_properties(${label}_${stem} PROPERTIES LABELS ${label} TIMEOUT 900 SKIP_RETURN_CODE 77
            ENVIRONMENT "TDM_BINARY_DIR=${PROJECT_BINARY_DIR};TDM_SANITIZE=${TDM_SANITIZE};TDM_EMULATOR=${emulator};CC=${CMAKE_C_COMPILER}")
    endforeach()
endfunction()
