# SPDX-License-Identifier: Apache-2.0
# Cross toolchain for 64-bit Arm: Debian's compiler and multiarch libraries (scripts/deps --arm64), and its user-mode
# emulator, through which ctest runs what was built. Refuses nothing itself: a missing compiler is CMake's own error.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# The emulator's own choice of a processor ("max") has every extension that it knows.
set(TDM_ARM64_CPU max CACHE STRING "processor that the emulator plays: max, cortex-a72 (no dot products), ...")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${TDM_ARM64_CPU})

# Packages of the target only: those of the building machine would link, and then not run.
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
