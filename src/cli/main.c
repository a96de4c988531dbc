/* SPDX-License-Identifier: Apache-2.0
 *
 * The command's entry. Everything else is in the room's library, so that tests reach it. */
#include "cli/cli.h"

int main(int argc, char **argv) {
    tdm_env env;
    tdm_env_read(&env);
    return tdm_cli_main(NULL, &env, argc, argv);
}
