#include "family.h"
#include <clattn/plan.h>

static const struct ca_family *const families[] = {&ca_unfused, &ca_fused_lanes, &ca_fused_tiles};

const struct ca_family *ca_family_at(size_t index)
{
    return index < sizeof families / sizeof *families ? families[index] : NULL;
}

const char *clattn_family_name(size_t index)
{
    const struct ca_family *family = ca_family_at(index);

    return family ? family->name : NULL;
}
