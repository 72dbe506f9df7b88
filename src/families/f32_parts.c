/* SPDX-License-Identifier: Apache-2.0 */
#include "families/f32_parts.h"
#include "base/sizes.h"
#include "families/fragments.h"

#include <string.h>

struct ca_ndrange ca_f32_parts_ndrange(size_t lines, size_t elements, size_t tensors)
{
    const size_t pieces = lines * ca_divide_up(elements, 8);
    const size_t groups = ca_smaller(ca_divide_up(pieces, PART_ITEMS), MOST_PART_GROUPS);
    struct ca_ndrange range = ca_groups(groups, PART_ITEMS);

    range.global[1] = tensors;
    return range;
}

const char *ca_f32_parts_refusal(const clattn_device_info *dev)
{
    return dev->max_work_group_size < PART_ITEMS || dev->max_work_item_sizes[0] < PART_ITEMS
               ? "a work-group that splits f32 into parts exceeds the device limit"
               : NULL;
}

/* From the vendors' data sheets, in TFLOP/s: dense matrix products of bf16 with sums in f32, and
 * multiply-adds of f32.
 * A unit pays if a sixth of the first rate is well above the second; kernels reach about the same
 * share of either. B200's rate is that of an instruction that no kernel here has; mma.sync's is not
 * stated.
 *
 *                       bf16     f32   a sixth
 *   A100     sm_80       312    19.5       2.7
 *   A10      sm_86       125    31.2       0.7
 *   RTX 4090 sm_89       165    82.6       0.3
 *   H100     sm_90       989      67       2.5
 *   B200     sm_100     2250      75       5.0
 *   RTX 5090 sm_120      210     105       0.3
 *   MI250X   gfx90a      383    95.7       0.7   (f32: packed multiply-adds)
 *   MI300X   gfx942     1307     163       1.3   (likewise; compilers pack few of them: 2.7)
 *   MI355X   gfx950     2500     157       2.7   (likewise)
 *   7900 XTX gfx1100     123      61       0.3
 *   A770     12.55       138    19.7       1.2
 *   Max 1550 12.60       839    52.4       2.7
 *   B580     20.1        117    14.6       1.3 */
int ca_f32_parts_pay(const clattn_device_info *dev)
{
    static const char *const faster[] = {"sm_80",  "sm_90",       "gfx942",
                                         "gfx950", "intel_12.60", "intel_12.61"};

    for (size_t n = 0; n < sizeof faster / sizeof *faster; n++)
        if (strcmp(dev->architecture, faster[n]) == 0)
            return ca_instruction_of(dev) != 0;
    return 0;
}

int ca_fused_parts_preference(const struct ca_problem *p, const clattn_device_info *dev, int with)
{
    enum { BEHIND_OTHERS = 40, LEAST_QUERIES = 128, BLOCK_QUERIES = 64, BLOCK_KEYS = 32 };
    const size_t tiles =
        (BLOCK_QUERIES + BLOCK_KEYS) * p->normal.dim_qk + BLOCK_KEYS * p->normal.dim_v;

    if (p->normal.dtype != CLATTN_F32 || with == CA_ONLY_IF_FORCED)
        return with;
    return p->normal.seq_q >= LEAST_QUERIES &&
                   3 * ELEMENT_BYTES * tiles <= dev->local_memory_bytes && ca_f32_parts_pay(dev)
               ? with
               : BEHIND_OTHERS;
}
