/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: what is read and what is refused, and contexts in which one stands in for a device:
 * every choice within its limits, every refusal with a reason, nothing executed. */
#include "device/facts.h"
#include "tests/faults/faults.h"
#include "tests/support/fixture.h"
#include "tests/support/profiles.h"
#include "tests/trials/random_problem.h"
#include <clattn/multihead.h>
#include <clattn/tuning.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(profile, .timeout = 120);

/* ---- the files ------------------------------------------------------------------------------- */

/* Every fact has one source, or one reason why it is assumed. */
Test(profile, every_fact_is_accounted_for) {
    static struct profile list[MOST_PROFILES];
    const size_t count = profiles_read(list);

    for (size_t n = 0; n < count; n++) {
        char *text = profile_text(list[n].name);
        json_t *root = json_loads(text, 0, NULL);
        json_t *device = json_object_get(root, "device"), *assumed, *source, *fact;
        json_t *sources = json_object_get(root, "sources");
        size_t named = 0, at, i;
        const char *key;

        assumed = json_object_get(root, "assumed");
        cr_assert(json_array_size(sources) > 0, "%s names no source", list[n].name);
        json_array_foreach(sources, at, source)
        {
            cr_expect(strlen(json_string_value(json_object_get(source, "from"))) > 20);
            json_array_foreach(json_object_get(source, "facts"), i, fact)
            {
                cr_expect(json_object_get(device, json_string_value(fact)) != NULL &&
                              json_object_get(assumed, json_string_value(fact)) == NULL,
                          "%s: %s", list[n].name, json_string_value(fact));
                named++;
            }
        }
        json_object_foreach(assumed, key, fact)
            cr_expect(json_object_get(device, key) && json_string_length(fact) > 5, "%s: %s",
                      list[n].name, key);
        cr_expect(named + json_object_size(assumed) == json_object_size(device), "%s",
                  list[n].name);
        json_decref(root);
        free(text);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static void refused(const char *text, const size_t bytes, const char *words)
{
    clattn_device_info info = {.struct_size = sizeof info};
    char reason[256] = "";

    const clattn_status status =
        clattn_device_profile_parse(text, bytes, &info, reason, sizeof reason);
    cr_expect(status == CLATTN_FILE_ERROR, "%s: %s", words, clattn_status_string(status));
    cr_expect(strstr(reason, words) != NULL, "'%s' lacks '%s'", reason, words);
    cr_expect(info.name[0] == '\0' && info.struct_size == sizeof info, "cleared on failure");
}

/* The profile with a fact replaced (value NULL: left out). */
static void refused_with(const char *key, json_t *value, const char *words)
{
    char *text = profile_text("sm_86");
    json_t *root = json_loads(text, 0, NULL), *device = json_object_get(root, "device");

    if (value)
        json_object_set_new(device, key, value);
    else
        json_object_del(device, key);
    char *changed = json_dumps(root, 0);
    refused(changed, strlen(changed), words);
    free(changed);
    json_decref(root);
    free(text);
}

Test(profile, facts_that_are_missing_or_of_another_kind) {
    char *text = profile_text("sm_86"), words[128];
    json_t *root = json_loads(text, 0, NULL), *value;
    const char *key;

    json_object_foreach(json_object_get(root, "device"), key, value)
    {
        snprintf(words, sizeof words, "%s is missing", key);
        refused_with(key, NULL, words);
        snprintf(words, sizeof words, "%s is", key);
        refused_with(key, json_null(), words);
        refused_with(key, json_real(1.5), words);
    }
    json_decref(root);
    free(text);
}

Test(profile, facts_beyond_their_limits) {
    char words[128], long_text[256] = "";
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        snprintf(words, sizeof words, "%s is %llu but must be from %llu to %llu", fact->name,
                 (unsigned long long)fact->most + 1, (unsigned long long)fact->least,
                 (unsigned long long)fact->most);
        refused_with(fact->name, json_integer((json_int_t)fact->most + 1), words);
        snprintf(words, sizeof words, "%s is -1 but", fact->name);
        refused_with(fact->name, json_integer(-1), words);
    }
    memset(long_text, 'x', sizeof long_text - 1);
    refused_with("name", json_string(long_text), "name is longer");
    refused_with("name", json_string(""), "name is empty");
    refused_with("type", json_string("toaster"), "type is none");
    refused_with("address_bits", json_integer(48), "address_bits must be 32 or 64");
    refused_with("max_allocation_bytes", json_integer((json_int_t)1 << 40),
                 "max_allocation_bytes exceeds global_memory_bytes");
    refused_with("max_work_item_sizes", json_pack("[i, i]", 1, 2), "max_work_item_sizes is not");
    refused_with("max_work_item_sizes", json_pack("[i, i, i, i]", 1, 2, 3, 4), "is not three");
    refused_with("max_work_item_sizes", json_pack("[i, i, i]", 1, 0, 1), "max_work_item_sizes");
    refused_with("extensions", json_pack("[s]", "a b"), "not one word");
    refused_with("extensions", json_pack("[i]", 1), "not one word");
    refused_with("surprise", json_integer(1), "a fact that this version does not know");
    json_t *many = json_array();
    for (int n = 0; n < 20; n++)
        json_array_append_new(many, json_string(long_text));
    refused_with("extensions", many, "longer than the library keeps");
}

Test(profile, documents_that_are_none) {
    static const struct {
        const char *text, *words;
    } documents[] = {
        {"", "line 1 is not JSON"},
        {"{", "is not JSON"},
        {"{\"format\": 1, \"format\": 2}", "gives a member twice"},
        {"[]", "format is not"},
        {"{\"format\": \"clattn-tuning\"}", "format is not"},
        {"{\"format\": \"clattn-profile\", \"version\": 2}", "version is not 1"},
        {"{\"format\": \"clattn-profile\", \"version\": 1}", "device is missing"},
        {"{\"format\": \"clattn-profile\", \"version\": 1, \"devise\": {}}", "a member that"},
        {"{\"format\": \"clattn-profile\", \"version\": 1, \"device\": []}", "not an object"},
    };
    char *large = calloc(2, 1 << 20);

    for (size_t n = 0; n < sizeof documents / sizeof *documents; n++)
        refused(documents[n].text, strlen(documents[n].text), documents[n].words);
    refused(large, 2 << 20, "larger than any profile");
    free(large);

    char *text = profile_text("sm_86"); /* cut anywhere */
    for (size_t bytes = strlen(text) - 2; bytes > 0; bytes /= 2)
        refused(text, bytes, "is not JSON");
    free(text);
}

Test(profile, arguments_and_memory) {
    clattn_device_info info = {.struct_size = sizeof info};
    char *text = profile_text("sm_86");
    const size_t bytes = strlen(text);

    cr_expect(clattn_device_profile_parse(NULL, 1, &info, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    cr_expect(clattn_device_profile_parse(text, bytes, NULL, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    info.struct_size = 8;
    cr_expect(clattn_device_profile_parse(text, bytes, &info, NULL, 0) == CLATTN_INVALID_ARGUMENT);
    info.struct_size = sizeof info;
    cr_expect(clattn_device_profile_parse(text, bytes, &info, NULL, 0) == CLATTN_SUCCESS);
    cr_expect(info.compute_units == 82 && info.sub_group_size == 32 && info.fp64 && !info.fp16);
    cr_expect_str_eq(info.architecture, "sm_86");
    cr_expect(ca_facts_have(&info, "cl_khr_fp64") && !ca_facts_have(&info, "cl_khr_fp6"));
    for (struct faults_rounds r = {0}; faults_next(&r);) {
        faults_begin(&r);
        const clattn_status status = clattn_device_profile_parse(text, bytes, &info, NULL, 0);
        cr_expect(status == (faults_failed(&r) ? CLATTN_OUT_OF_MEMORY : CLATTN_SUCCESS));
    }
    free(text);
}

/* ---- contexts without a device --------------------------------------------------------------- */

static clattn_status open_with(const clattn_device_info *info, struct log *log,
                               clattn_context **context)
{
    const clattn_context_options options = {.struct_size = sizeof options,
                                            .log = log_message,
                                            .log_user_data = log,
                                            .cache_directory = "",
                                            .profile = info};

    return clattn_context_create(NULL, NULL, &options, context);
}

/* Facts with which no kernel could run, and ones that are none. */
Test(profile, contexts_that_are_refused) {
    static const struct {
        const char *words;
        clattn_status status;
        unsigned opencl_version;
        size_t parameters, struct_size, work_group;
        cl_bool compiler, little;
    } cases[] = {
        {"OpenCL 1.2 is needed", CLATTN_UNSUPPORTED, 11, 1024, 0, 64, CL_TRUE, CL_TRUE},
        {"big-endian", CLATTN_UNSUPPORTED, 12, 1024, 0, 64, CL_TRUE, CL_FALSE},
        {"256 bytes of kernel arguments", CLATTN_UNSUPPORTED, 12, 256, 0, 64, CL_TRUE, CL_TRUE},
        {"no OpenCL C compiler", CLATTN_NO_COMPILER, 12, 1024, 0, 64, CL_FALSE, CL_TRUE},
        {"struct_size", CLATTN_INVALID_ARGUMENT, 12, 1024, 8, 64, CL_TRUE, CL_TRUE},
        {"max_work_group_size is 0", CLATTN_INVALID_ARGUMENT, 12, 1024, 0, 0, CL_TRUE, CL_TRUE},
    };
    const struct profile least = profile_named("minimum");

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        clattn_device_info info = least.info;
        clattn_context *context = NULL;
        struct log log = {0};
        info.opencl_version = cases[n].opencl_version;
        info.max_parameter_bytes = cases[n].parameters;
        info.max_work_group_size = cases[n].work_group;
        info.compiler_available = cases[n].compiler;
        info.little_endian = cases[n].little;
        if (cases[n].struct_size)
            info.struct_size = cases[n].struct_size;
        cr_expect(open_with(&info, &log, &context) == cases[n].status, "%s", cases[n].words);
        cr_expect(!context && strstr(log.last, cases[n].words), "'%s' lacks '%s'", log.last,
                  cases[n].words);
    }
}

/* Plans are made, described and released; what would run something says that it cannot. */
Test(profile, nothing_runs) {
    const struct profile profile = profile_named("gfx1100");
    const clattn_problem forward = fixture_problem("fwd f32 h2 q64 k64 d64 dropout=0.5");
    const clattn_problem backward = fixture_problem("bwd f32 h2 q64 k64 d64");
    const clattn_problem project = fixture_problem("proj f32 h2/1 q64 d64/32");
    const clattn_problem *const problems[] = {&forward, &backward, &project};
    const clattn_tuning_options tuning = {.struct_size = sizeof tuning, .seconds = 1.0};
    clattn_plan_options measure = {
        .struct_size = sizeof measure, .flags = CLATTN_PLAN_MEASURE, .measure_seconds = 1.0};
    const clattn_forward_tensors f = {.struct_size = sizeof f};
    const clattn_backward_tensors b = {.struct_size = sizeof b};
    const clattn_projection_tensors p = {.struct_size = sizeof p};
    const clattn_host_forward_tensors host = {.struct_size = sizeof host};
    const clattn_multihead_forward_tensors l = {.struct_size = sizeof l};
    clattn_plan_info info = {.struct_size = sizeof info};
    clattn_multihead_plan *layer_plan;
    clattn_multihead layer;
    clattn_context *context;
    clattn_plan *plans[4];
    struct log log = {0};

    cr_assert(open_with(&profile.info, &log, &context) == CLATTN_SUCCESS, "%s", log.last);
    cr_expect(clattn_context_opencl(context) == NULL);
    cr_expect(clattn_context_device(context)->device == NULL);
    cr_expect_str_eq(clattn_context_device(context)->name, "gfx1100");
    for (size_t n = 0; n < 3; n++)
        cr_assert(clattn_plan_create(context, problems[n], NULL, &plans[n]) == CLATTN_SUCCESS);
    cr_assert(clattn_plan_create(context, &forward, &measure, &plans[3]) == CLATTN_SUCCESS);
    cr_expect(log.warnings == 1, "tuning failed, the plan was made");
    cr_assert(clattn_multihead_parse("layer fwd f32 h2 q64 d32 model=64", &layer, NULL, 0) ==
              CLATTN_SUCCESS);
    cr_assert(clattn_multihead_plan_create(context, &layer, 0, &layer_plan) == CLATTN_SUCCESS);
    memset(&log, 0, sizeof log);

    cr_expect(clattn_attention_forward(plans[0], NULL, &f, 0, NULL, NULL) == CLATTN_NO_DEVICE);
    cr_expect(strstr(log.last, "gfx1100") != NULL, "%s", log.last);
    cr_expect(clattn_attention_backward(plans[1], NULL, &b, 0, NULL, NULL) == CLATTN_NO_DEVICE);
    cr_expect(clattn_project(plans[2], NULL, &p, 0, NULL, NULL) == CLATTN_NO_DEVICE);
    cr_expect(clattn_multihead_forward(layer_plan, NULL, &l, 0, NULL, NULL) == CLATTN_NO_DEVICE);
    cr_expect(clattn_attention_forward_host(context, &forward, NULL, &host) == CLATTN_NO_DEVICE);
    cr_expect(clattn_tune(context, &forward, 1, &tuning, NULL) == CLATTN_NO_DEVICE);
    cr_expect(clattn_dropout_mask(context, &forward, 1, 2, NULL, &(clattn_buffer){.buffer = NULL},
                                  0, NULL, NULL) == CLATTN_NO_DEVICE);
    cr_expect(log.errors == 7, "%zu sentences", log.errors);
    cr_expect(clattn_context_builds(context) == 0);
    clattn_context_release(context); /* the plans keep it */
    for (size_t n = 0; n < 4; n++) {
        cr_expect(clattn_plan_describe(plans[n], &info) == CLATTN_SUCCESS);
        cr_expect(info.work_group_size > 0 && info.local_bytes > 0 && info.private_bytes > 0);
        clattn_plan_release(plans[n]);
    }
    clattn_multihead_plan_release(layer_plan);
    cr_expect(faults_objects_alive(NULL, 0) == 0);
}

/* ---- choices --------------------------------------------------------------------------------- */

ParameterizedTestParameters(profile, choices) {
    static struct profile list[MOST_PROFILES];

    return cr_make_param_array(struct profile, list, profiles_read(list));
}

/* A plan within the limits, or a refusal that gives a reason. 1 for a plan. */
static int decide(clattn_context *context, const struct log *log, const clattn_problem *problem)
{
    const clattn_device_info *device = clattn_context_device(context);
    clattn_plan_info info = {.struct_size = sizeof info};
    char text[512] = "";
    clattn_plan *plan;

    clattn_problem_print(problem, text, sizeof text, NULL);
    const clattn_status status = clattn_plan_create(context, problem, NULL, &plan);
    cr_expect(clattn_plan_supports(context, problem, NULL) == status);
    const char *reason = clattn_context_last_error(context);
    if (status != CLATTN_SUCCESS) {
        cr_expect(status == CLATTN_UNSUPPORTED && strlen(reason) > 20, "'%s': %s", text, reason);
        cr_expect(strstr(log->last, reason) != NULL);
        return 0;
    }
    clattn_plan_describe(plan, &info);
    cr_expect(info.work_group_size <= device->max_work_group_size, "'%s': %zu", text,
              info.work_group_size);
    cr_expect(info.local_bytes <= device->local_memory_bytes, "'%s': %zu", text, info.local_bytes);
    cr_expect(info.workspace_bytes <= device->max_allocation_bytes, "'%s'", text);
    /* Block lists, packed batches backward, some problems with pages and invariant ones have no family for GPUs yet. */
    const int is_packed = problem->total_q || problem->total_kv;
    const int may_have_none = problem->block_q || problem->page_size || problem->invariant ||
                              (problem->operation == CLATTN_BACKWARD && is_packed);
    cr_expect(device->type & CL_DEVICE_TYPE_CPU ||
                  !(strstr(info.family, "_cpu") || strstr(info.family, "lanes")) || may_have_none,
              "'%s' on a GPU by %s", text, info.family);
    clattn_plan_release(plan);
    return 1;
}

ParameterizedTest(struct profile *profile, profile, choices) {
    static const char *const texts[] = {
        "fwd f16 b1 h32/8 q1024 k4096 d128 causal=br",
        "fwd f32 b8 h12 q512 k512 d64 klen",
        "fwd bf16 b1 h32/8 q1 k8192 d128",
        "fwd f32 h2 q300 k300 d512",
        "fwd f32 q1 k1 d1",
        "fwd f16 b2 h4 q65 k33 d257/111 softcap=30 sinks alibi",
        "fwd f32 q0 k5 d8",
        "fwd f32 h8 q512 k512 d64 scores=weights",
        "fwd f16 h8/1 q1 k1000 d128 kcache=q8_0",
        "bwd f32 b2 h8 q1024 k1024 d128",
        "bwd bf16 h4/2 q33 k65 d256 causal=tl dropout=0.1",
        "bwd f16 h1 q100 k100 d512/64",
        "proj f32 h12/1 q2048 d64/768",
        "proj f16 h1 q1 d8/8",
    };
    struct rng r = rng_seed(7);
    struct log log = {0};
    clattn_context *context;
    clattn_multihead layer;
    clattn_multihead_plan *plan;
    size_t planned = 0;

    cr_assert(open_with(&profile->info, &log, &context) == CLATTN_SUCCESS, "%s", log.last);
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        const clattn_problem problem = fixture_problem(texts[n]);
        cr_expect(decide(context, &log, &problem), "%s: '%s' is refused: %s", profile->name,
                  texts[n], log.last);
    }
    for (int n = 0; n < 300; n++) {
        const clattn_problem problem = random_problem(&r);
        planned += (size_t)decide(context, &log, &problem);
    }
    cr_expect(planned >= 295, "%s: only %zu of 300 are computed", profile->name, planned);
    for (int n = 0; n < 2; n++) {
        cr_assert(clattn_multihead_parse(n ? "layer bwd f32 b4 h8 q128 d64 model=512"
                                           : "layer fwd f16 h12 q197 d64 model=768 training",
                                         &layer, NULL, 0) == CLATTN_SUCCESS);
        cr_expect(clattn_multihead_plan_create(context, &layer, 0, &plan) == CLATTN_SUCCESS, "%s",
                  log.last);
        clattn_multihead_plan_release(plan);
    }
    clattn_context_release(context);
}

/* A problem that exceeds 32-bit addresses or an allocation is refused, and the reason says so. */
Test(profile, large_problems) {
    static const struct {
        const char *profile, *problem, *family, *words;
    } cases[] = {
        {"minimum", "fwd f32 h1024 q16 k20000 d64", "fused_gpu UNIT=item", "32-bit addresses"},
        {"minimum", "fwd f16 h64 q4000 k4000 d64", "unfused", "largest allocation"},
        {"minimum", "bwd f32 b1024 h64 q1024 k16 d1", "backward_gpu UNIT=item",
         "workspace exceeds"},
        {"adreno_730", "bwd f32 h64 q100000 k64 d128", "backward_cpu UNIT=vector",
         "workspace exceeds"},
        {"adreno_730", "bwd f32 h8 q64 k64 d512", "backward_cpu UNIT=vector", "private memory"},
    };

    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const struct profile profile = profile_named(cases[n].profile);
        const clattn_problem problem = fixture_problem(cases[n].problem);
        const clattn_plan_options options = {.struct_size = sizeof options,
                                             .family = cases[n].family};
        clattn_context *context;
        struct log log = {0};
        cr_assert(open_with(&profile.info, &log, &context) == CLATTN_SUCCESS, "%s", log.last);
        cr_expect(clattn_plan_supports(context, &problem, &options) == CLATTN_UNSUPPORTED);
        const char *reason = clattn_context_last_error(context);
        cr_expect(strstr(reason, cases[n].words) != NULL, "'%s': '%s' lacks '%s'", cases[n].problem,
                  reason, cases[n].words);
        clattn_context_release(context);
    }
}
