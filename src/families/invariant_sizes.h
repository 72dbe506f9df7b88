/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that decide bits, and so are the same in all plans of invariant problems. */
#pragma once

/* Keys of a part, where the keys are split over groups: parts count from key 0. */
#define INVARIANT_PART_KEYS 512
