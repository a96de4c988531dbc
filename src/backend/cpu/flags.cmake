# SPDX-License-Identifier: Apache-2.0
# Instruction sets of single files. Nothing outside these folders may use them; create chooses at run time.
# Sets of another processor are left out.
get_target_property(cpu_sources tdm_${name} SOURCES)
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER cpu_sources EXCLUDE REGEX "/backend/cpu/(avx2|avxvnni|avx512|amx)/")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(FILTER cpu_sources EXCLUDE REGEX "/backend/cpu/neon/")
endif()
set_property(TARGET tdm_${name} PROPERTY SOURCES ${cpu_sources})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    file(GLOB avx2_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx2/*.c)
    if(avx2_sources)
        set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    endif()
    file(GLOB avxvnni_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/avxvnni/*.c)
    set_source_files_properties(${avxvnni_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mavxvnni")
    file(GLOB avx512_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/*.c)
    if(avx512_sources)
        set_source_files_properties(${avx512_sources} PROPERTIES COMPILE_OPTIONS
            "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni")
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/e4m3.c
            ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/lone_i8_vbmi.c
            APPEND PROPERTY COMPILE_OPTIONS "-mavx512vbmi")
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/e4m3_bf16.c
            APPEND PROPERTY COMPILE_OPTIONS "-mavx512vbmi;-mavx512bf16")
        set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/linear_bf16.c
            ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/peak_bf16.c
            ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/two_chains.c
            ${PROJECT_SOURCE_DIR}/src/backend/cpu/avx512/attention_dot.c
            APPEND PROPERTY COMPILE_OPTIONS "-mavx512bf16")
    endif()
    file(GLOB amx_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/amx/*.c)
    set_source_files_properties(${amx_sources} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mamx-tile;-mamx-int8;-mamx-bf16")
endif()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    file(GLOB dot_sources ${PROJECT_SOURCE_DIR}/src/backend/cpu/neon/*_dot.c)
    set_source_files_properties(${dot_sources} PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod")
endif()
