/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing by groups: experts are chosen from the best groups alone. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_ROUTING_H
#define TDM_MODEL_BLOCKS_ROUTING_H

#include <stdint.h>

#define TDM_ROUTING_GROUPS_MAX 256

/* A group is n / n_groups neighbours, two or more; it is as good as the sum of its two largest
 * scores with their corrections (NULL: none). All but the n_used best groups get scores of
 * -infinity; among equals the first is better. */
void tdm_routing_close_groups(float *scores, const float *correction, int32_t n, int32_t n_groups,
                              int32_t n_used);

#endif
