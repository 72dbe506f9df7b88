#include "families.h"

int family_takes_f32(const char *name)
{
    const struct ca_family *family = name ? ca_family_find(name) : ca_family_at(0);
    const clattn_device_info none = {.struct_size = sizeof none};
    clattn_problem p;

    if (!family)
        return 0;
    clattn_problem_init(&p);
    p.operation = family->operation;
    p.dtype = CLATTN_F32;
    p.dim_qk = p.dim_v = 16;
    return family->unsupported(&p, &none) == NULL;
}
