/* SPDX-License-Identifier: Apache-2.0 */
/* Score functions of the distance between query and key. */
#ifndef CA_FUNCTION_DISTANCE_H
#define CA_FUNCTION_DISTANCE_H

#include "problem/function.h"

/* Sets f->of_distance if score() adds to the score, or hides, what depends on the distance between query and key alone, apart
 * from batch and head; f->hides_distances if it returns -INFINITY for some, and f->loads_of_distance if the source defines no
 * NAME_index(). Then kernels compute it once for each distance of a tile. It reads the source by words, and understands
 * what is written plainly: a difference such as p.key - p.query, "return s + ...", "return ... + s", "float x = s + ...",
 * "s += ...", "return -INFINITY". False without memory. */
int ca_function_find_distance(struct clattn_function *f);

#endif
