/* SPDX-License-Identifier: Apache-2.0 */
/* The stage that writes the parts of q, do, k and v (cl/mma/gradients_parts.h), for the C file of a unit of
 * backward_gpu that multiplies f32 in parts:
 *
 *   BACKWARD_PARTS      for struct ca_family, before BACKWARD_STAGES
 *   preference_with()   for its preference
 *
 * Before including this: work_items(values), those of a group, and operand_parts(p), the parts of an element. */
#include "base/sizes.h"
#include "families/f32_parts.h"

/* The launch of the stage: a work-item for eight elements of each row of each head. 16-bit operands
 * need no parts. */
static struct ca_ndrange parts_ndrange(const struct ca_problem *p, const size_t *values)
{
    const size_t items = work_items(values), rows = ca_larger(p->normal.seq_q, p->normal.seq_kv);
    const size_t pieces =
        operand_parts(p) == 1
            ? 0
            : rows * ca_divide_up(ca_larger(p->normal.dim_qk, p->normal.dim_v), 8);

    return (struct ca_ndrange){
        {ca_round_up(pieces, items), 2 * (p->normal.heads + p->normal.kv_heads), p->normal.batch},
        {items, 1, 1}};
}

enum { BEHIND_OTHERS = 40 };

/* The unit's preference, which is `with` for 16 bits. f32 ranks behind work-items with multiply-
 * adds if these are faster. */
static int preference_with(const struct ca_problem *p, const clattn_device_info *dev, int with)
{
    return with == CA_ONLY_IF_FORCED || operand_parts(p) == 1 || ca_f32_parts_pay(dev)
               ? with
               : BEHIND_OTHERS;
}

#define BACKWARD_PARTS                                                                             \
    {                                                                                              \
        "backward_parts",                                                                          \
            CA_BIT(CA_Q) | CA_BIT(CA_K) | CA_BIT(CA_V) | CA_BIT(CA_DO) | CA_STARTS |               \
                CA_BIT(CA_WORKSPACE) | CA_OF_PARTS,                                                \
            parts_ndrange                                                                          \
    }
