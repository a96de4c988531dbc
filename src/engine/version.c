/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's version; CMake defines TDM_VERSION from the project's one. */
#include "tandem/tandem.h"

const char *tdm_version(void) {
    return TDM_VERSION;
}
