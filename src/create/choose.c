/* SPDX-License-Identifier: Apache-2.0 */
#include "create/choose.h"
#include "base/writer.h"
#include "families/candidate.h"
#include "families/registry.h"
#include "problem/classes/problem_class.h"
#include "problem/problem.h"
#include "selfcheck/case.h"
#include "store/shipped.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/table_advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The number of choices kept for defaults, in case all known results fail. */
enum { ROOM_FOR_DEFAULTS = 8 };

const char *ca_origin_sentence(enum ca_origin origin)
{
    static const char *const sentences[] = {
        [CA_FORCED] = "the caller forced it",
        [CA_OVERRIDE] = "an override is set, by CLATTN_OVERRIDE",
        [CA_EXACT] = "tuned for this class of problems on this device",
        [CA_EXACT_STALE] = "tuned for this class of problems, with another driver or kernel source",
        [CA_NEAREST] = "tuned for the nearest class of problems on this device",
        [CA_SHIPPED] = "tuned elsewhere on a device of this name",
        [CA_DEFAULT] = "untuned: it suits this kind of device",
    };

    return sentences[origin];
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *options_mistake(const clattn_plan_options *o)
{
    const unsigned all = CLATTN_PLAN_MEASURE | CLATTN_PLAN_KNOWN_ONLY | CLATTN_PLAN_UNTUNED;

    if (o->tunables && !o->family)
        return "options->tunables are given without a family";
    if (o->flags & ~all)
        return "options->flags holds a bit that this library does not know";
    if (o->flags & (o->flags - 1))
        return "options->flags: MEASURE, KNOWN_ONLY and UNTUNED exclude each other";
    if (o->flags && o->family)
        return "options->flags choose, but options->family is forced";
    if (o->flags & CLATTN_PLAN_MEASURE
            ? !(o->measure_seconds > 0.0 && o->measure_seconds < HUGE_VAL)
            : o->measure_seconds != 0.0)
        return "options->measure_seconds must be over 0 with MEASURE, and 0 without";
    return NULL;
}

/* ---- the list -------------------------------------------------------------------------------- */

struct search {
    const clattn_context *ctx;
    const struct ca_problem *p;
    clattn_problem representative;
    struct ca_view view; /* view of the store, which is locked meanwhile */
    struct ca_choices *choices;
    const struct ca_family *only; /* ca_family_of_invariant() of an invariant problem; else NULL */
};

/* Returns NULL if the candidate is not banned. */
static const struct ca_banned *find_ban(const struct search *s,
                                        const struct ca_candidate *candidate)
{
    return s->view.own ? ca_candidate_ban(s->view.own, candidate, &s->representative) : NULL;
}

/* Adds a candidate that fits, is not banned and not there yet. */
static void add(struct search *s, const struct ca_candidate *candidate, enum ca_origin origin)
{
    struct ca_choices *choices = s->choices;
    const size_t most = CA_MAX_CHOICES - (origin == CA_DEFAULT ? 0 : ROOM_FOR_DEFAULTS);
    char reason[CA_REASON_BYTES];

    if (choices->count >= most || find_ban(s, candidate) ||
        (s->p->normal.invariant && candidate->family != s->only) ||
        ca_family_refusal(candidate->family, s->p, &s->ctx->device, candidate->values, reason,
                          sizeof reason))
        return;
    for (size_t n = 0; n < choices->count; n++)
        if (ca_candidates_equal(&choices->list[n].candidate, candidate))
            return;
    choices->list[choices->count++] = (struct ca_choice){*candidate, origin};
}

/* Adds the fresh or the stale entries of a class, fastest first. near: NULL if it is the problem's
 * own, else its representative. */
static void add_entries(struct search *s, const struct ca_class *class,
                        const struct ca_problem *near, int stale, enum ca_origin origin)
{
    for (size_t n = 0; class && n < class->num_entries; n++) {
        struct ca_candidate candidate;
        if (ca_entry_is_fresh(&class->entries[n]) != !stale ||
            !ca_entry_candidate(&class->entries[n], &candidate))
            continue;
        if (near && !ca_candidate_was_compared(&candidate, near, s->p, &s->ctx->device))
            continue;
        if (near)
            candidate = ca_candidate_carried(&candidate, near, s->p, &s->ctx->device);
        add(s, &candidate, origin);
    }
}

static void add_exact(struct search *s)
{
    char text[CA_CLASS_TEXT];

    ca_problem_class(&s->p->normal, text);
    const struct ca_class *own = s->view.own ? ca_device_table_class(s->view.own, text) : NULL;
    add_entries(s, own, NULL, 0, CA_EXACT);
    add_entries(s, own, NULL, 1, CA_EXACT_STALE);
    for (size_t n = 0; n < s->view.table->num_devices; n++) {
        const struct ca_device_table *table = &s->view.table->devices[n];
        if (table == s->view.own)
            continue;
        const struct ca_class *other = ca_device_table_class(table, text);
        add_entries(s, other, NULL, 0, CA_EXACT_STALE);
        add_entries(s, other, NULL, 1, CA_EXACT_STALE);
    }
}

static void add_nearest(struct search *s)
{
    const struct ca_class *nearest = NULL;
    struct ca_problem near = *s->p;
    double least = INFINITY;

    for (size_t d = 0; d < s->view.table->num_devices; d++) {
        const struct ca_device_table *table = &s->view.table->devices[d];
        for (size_t n = 0; n < table->num_classes; n++) {
            struct ca_problem other;
            if (!ca_class_read(table->classes[n].text, &other))
                continue;
            const double distance = ca_class_distance(&s->representative, &other.given);
            if (distance > 0.0 && distance <= CA_CLASS_NEAR &&
                (distance < least || (distance == least && table == s->view.own))) {
                least = distance;
                nearest = &table->classes[n];
                near = other;
            }
        }
    }
    add_entries(s, nearest, &near, 0, CA_NEAREST);
    add_entries(s, nearest, &near, 1, CA_NEAREST);
}

static clattn_status add_shipped(struct search *s)
{
    struct ca_candidate candidates[CA_TABLE_TOP];
    size_t count;
    const clattn_status status = ca_table_nearest(
        ca_shipped_table(s->ctx->shipped), s->p, &s->ctx->device, candidates, CA_TABLE_TOP, &count);

    for (size_t n = 0; n < count; n++)
        add(s, &candidates[n], CA_SHIPPED);
    return status;
}

/* One candidate of each family, in order of preference. */
static void add_defaults(struct search *s)
{
    const struct ca_family *family;

    for (int preference = 100; preference >= 0; preference--) {
        for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
            if (family->operation != s->p->normal.operation ||
                family->preference(s->p, &s->ctx->device) != preference)
                continue;
            struct ca_candidate candidate = {.family = family};
            ca_family_suggest(family, s->p, &s->ctx->device, candidate.values);
            add(s, &candidate, CA_DEFAULT);
        }
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static clattn_status choose_forced(const clattn_context *ctx, const struct ca_problem *p,
                                   const clattn_plan_options *options, struct ca_choices *choices,
                                   char *reason, size_t reason_bytes)
{
    char text[2 * CA_TUNABLES_TEXT];
    struct ca_choice *choice = &choices->list[0];
    const int length = snprintf(text, sizeof text, "%s %s", options->family,
                                options->tunables ? options->tunables : "");

    if (length >= (int)sizeof text)
        return ca_status_with(CLATTN_UNSUPPORTED, reason, reason_bytes,
                              "the forced family and tunables are over %zu bytes long",
                              sizeof text - 2);
    if (!ca_candidate_parse(text, p, &ctx->device, &choice->candidate, reason, reason_bytes))
        return CLATTN_UNSUPPORTED;
    choice->origin = CA_FORCED;
    choices->count = 1;
    return CLATTN_SUCCESS;
}

/* Why a family's default is no choice; *banned becomes 1 if the store bans it. */
static void explain_family(const struct search *s, const struct ca_family *family, int *banned,
                           char *reason, size_t reason_bytes)
{
    struct ca_candidate candidate = {.family = family};
    char made[CA_REASON_BYTES];

    ca_family_suggest(family, s->p, &s->ctx->device, candidate.values);
    const char *why =
        ca_family_refusal(family, s->p, &s->ctx->device, candidate.values, made, sizeof made);
    const struct ca_banned *ban = why ? NULL : find_ban(s, &candidate);
    *banned |= ban != NULL;
    if (ban)
        ca_reason(reason, reason_bytes, "it was set aside: it %s",
                  ban->reason + (strncmp(ban->reason, "it ", 3) == 0 ? 3 : 0));
    else if (!why && s->p->normal.int8)
        ca_reason(reason, reason_bytes,
                  "the device has no instruction for products of bytes that "
                  "is known here, and without one it is only used if forced");
    else
        ca_reason(reason, reason_bytes, "%s", why ? why : "it is only used if forced");
}

/* Says why no family can compute a problem for which there is no choice. */
static void explain(const struct search *s, char *reason, size_t reason_bytes)
{
    const struct ca_family *family;
    char refusals[6 * CA_REASON_BYTES] = "", class[CA_CLASS_TEXT];
    struct ca_writer writer = {refusals, sizeof refusals, 0};
    int banned = 0;

    for (size_t n = 0; (family = ca_family_at(n)) != NULL; n++) {
        char why[2 * CA_REASON_BYTES];
        if (family->operation != s->p->normal.operation ||
            (s->p->normal.int8 &&
             !family->multiplies_bytes)) /* others are refused for that reason alone */
            continue;
        explain_family(s, family, &banned, why, sizeof why);
        ca_put(&writer, "%s%s: %s", writer.length ? "; " : "", family->full_name, why);
    }
    ca_problem_class(&s->p->normal, class);
    if (banned)
        ca_reason(
            reason, reason_bytes,
            "no family can compute it (clattn-tune forget \"%s\" has what was set aside tried "
            "again): %s",
            class, refusals);
    else
        ca_reason(reason, reason_bytes, "no family can compute it: %s", refusals);
}

static clattn_status choose(const clattn_context *ctx, const struct ca_problem *p, unsigned flags,
                            struct ca_choices *choices, char *reason, size_t reason_bytes)
{
    struct search s = {.ctx = ctx,
                       .p = p,
                       .representative = ca_problem_representative(&p->normal),
                       .view = ca_store_lock(ctx->store),
                       .choices = choices,
                       .only =
                           p->normal.invariant ? ca_family_of_invariant(p, &ctx->device) : NULL};
    clattn_status status = CLATTN_SUCCESS;
    struct ca_candidate candidate;
    char unfit[CA_REASON_BYTES]; /* An override that does not fit is passed over. */

    if (!(flags & CLATTN_PLAN_UNTUNED)) {
        if (ctx->override &&
            ca_candidate_parse(ctx->override, p, &ctx->device, &candidate, unfit, sizeof unfit))
            add(&s, &candidate, CA_OVERRIDE);
        add_exact(&s);
    }
    if (!(flags & (CLATTN_PLAN_UNTUNED | CLATTN_PLAN_KNOWN_ONLY)))
        add_nearest(&s);
    if (!(flags & CLATTN_PLAN_KNOWN_ONLY)) {
        /* comes last, since the first use parses the table, which takes milliseconds */
        if (choices->count == 0)
            status = add_shipped(&s);
        add_defaults(&s);
    }
    if (status == CLATTN_SUCCESS && choices->count == 0 && !(flags & CLATTN_PLAN_KNOWN_ONLY))
        explain(&s, reason, reason_bytes);
    ca_store_unlock(ctx->store);
    if (status != CLATTN_SUCCESS) {
        choices->count = 0;
        ca_reason(reason, reason_bytes, "no host memory for the shipped table");
        return status;
    }
    if (choices->count > 0)
        return CLATTN_SUCCESS;
    if (flags & CLATTN_PLAN_KNOWN_ONLY) {
        char text[CA_CLASS_TEXT];
        ca_problem_class(&p->normal, text);
        return ca_status_with(CLATTN_NOT_TUNED, reason, reason_bytes,
                              "nothing is known of '%s' on this device", text);
    }
    return CLATTN_UNSUPPORTED;
}

clattn_status ca_choose(const clattn_context *ctx, const struct ca_problem *p,
                        const clattn_plan_options *options, struct ca_choices *choices,
                        char *reason, size_t reason_bytes)
{
    const char *mistake = options ? options_mistake(options) : NULL;

    choices->count = 0;
    if (ctx->forks != ca_forks())
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes,
                              "the context was made before fork()");
    ca_reason(reason, reason_bytes, "%s", mistake ? mistake : "");
    if (mistake)
        return CLATTN_INVALID_ARGUMENT;
    if (!ctx->skip_self_checks && ca_trust_refuses(&p->normal, reason, reason_bytes))
        return CLATTN_UNSUPPORTED;
    if (options && options->family)
        return choose_forced(ctx, p, options, choices, reason, reason_bytes);
    return choose(ctx, p, options ? options->flags : CLATTN_PLAN_DEFAULT, choices, reason,
                  reason_bytes);
}
