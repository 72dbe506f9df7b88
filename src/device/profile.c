/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON form of a profile (bench/profiles/README.md has it for people):
 *
 *     {"format": "clattn-profile", "version": 1,
 *      "device": {FACT: VALUE, ...},     each fact once, and no others
 *      "sources": [...], "assumed": {...}}     for people; not looked into
 */
#include "base/json_reader.h"
#include "base/log.h"
#include "base/structs.h"
#include "device/facts.h"

#include <stddef.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, NUM_OTHERS = 3 };

#define PLACE_OF(key) offsetof(clattn_device_info, key)
#define NAME_OF(key) #key, CA_JSON_NAME, PLACE_OF(key), sizeof(((clattn_device_info *)0)->key)
#define FLAG_OF(key) #key, CA_JSON_FLAG, PLACE_OF(key), 0

static const struct ca_json_field texts[] = {
    {NAME_OF(name)},           {NAME_OF(vendor)},        {NAME_OF(driver_version)},
    {NAME_OF(device_version)}, {NAME_OF(platform_name)}, {NAME_OF(platform_version)},
    {NAME_OF(architecture)},
};

static const struct ca_json_field flags[] = {
    {FLAG_OF(local_memory_dedicated)},
    {FLAG_OF(compiler_available)},
    {FLAG_OF(little_endian)},
};

enum { NUM_TEXTS = sizeof texts / sizeof *texts, NUM_FLAGS = sizeof flags / sizeof *flags };

static const struct ca_json *get(struct ca_json_reader *r, const struct ca_json *device,
                                 const char *key)
{
    const struct ca_json *value = ca_json_get(device, key);

    if (!value)
        ca_json_refuse(r, key, "is missing");
    return value;
}

/* Reads the numbers; one that its member cannot hold is beyond its limits. */
static void read_numbers(struct ca_json_reader *r, const struct ca_json *device,
                         clattn_device_info *info)
{
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        const struct ca_json *value = get(r, device, fact->name);
        const long long number = ca_json_integer(value);
        if (value && !ca_json_is(value, CA_JSON_INTEGER))
            ca_json_refuse(r, fact->name, "is not a whole number");
        else if (r->status == CLATTN_SUCCESS &&
                 (number < (long long)fact->least || number > (long long)fact->most)) {
            r->status = CLATTN_FILE_ERROR;
            ca_reason(r->reason, r->reason_bytes, "%s is %lld but must be from %llu to %llu",
                      fact->name, number, (unsigned long long)fact->least,
                      (unsigned long long)fact->most);
        } else if (r->status == CLATTN_SUCCESS)
            ca_fact_set(fact, info, (cl_ulong)number);
    }
}

static void read_sizes(struct ca_json_reader *r, const struct ca_json *device,
                       clattn_device_info *info)
{
    const struct ca_json *sizes = get(r, device, "max_work_item_sizes");

    if (!sizes)
        return;
    for (size_t n = 0; n < 3; n++) {
        const struct ca_json *size = ca_json_at(sizes, n);
        const long long number = ca_json_integer(size);
        if (ca_json_size(sizes) != 3 || !ca_json_is(size, CA_JSON_INTEGER) || number < 1 ||
            number > 1 << 30)
            ca_json_refuse(r, "max_work_item_sizes",
                           "is not three whole numbers from 1 to 1073741824");
        else
            info->max_work_item_sizes[n] = (size_t)number;
    }
}

static void read_type(struct ca_json_reader *r, const struct ca_json *device,
                      clattn_device_info *info)
{
    static const struct {
        const char *word;
        cl_device_type type;
    } types[] = {{"cpu", CL_DEVICE_TYPE_CPU},
                 {"gpu", CL_DEVICE_TYPE_GPU},
                 {"accelerator", CL_DEVICE_TYPE_ACCELERATOR}};
    const char *word = ca_json_text(get(r, device, "type"));

    for (size_t n = 0; word && n < sizeof types / sizeof *types; n++)
        if (strcmp(word, types[n].word) == 0)
            info->type = types[n].type;
    if (info->type == 0)
        ca_json_refuse(r, "type", "is none of \"cpu\", \"gpu\" and \"accelerator\"");
}

static void read_extensions(struct ca_json_reader *r, const struct ca_json *device,
                            clattn_device_info *info)
{
    const struct ca_json *list = get(r, device, "extensions");
    size_t length = 0;

    if (list && !ca_json_is(list, CA_JSON_ARRAY))
        ca_json_refuse(r, "extensions", "is not a list of texts");
    for (size_t n = 0; r->status == CLATTN_SUCCESS && n < ca_json_size(list); n++) {
        const struct ca_json *name = ca_json_at(list, n);
        const char *text = ca_json_text(name);
        if (!text || !*text || strpbrk(text, " \t\n"))
            ca_json_refuse(r, "extensions", "holds something that is not one word");
        else if (length + name->count + 2 > sizeof info->extensions)
            ca_json_refuse(r, "extensions", "are longer than the library keeps");
        else {
            if (length > 0)
                info->extensions[length++] = ' ';
            memcpy(info->extensions + length, text, name->count + 1);
            length += name->count;
        }
    }
    info->fp16 = ca_facts_have(info, "cl_khr_fp16");
    info->fp64 = ca_facts_have(info, "cl_khr_fp64");
}

static void read_device(struct ca_json_reader *r, const struct ca_json *device,
                        clattn_device_info *info)
{
    size_t count = NUM_TEXTS + NUM_FLAGS + NUM_OTHERS;

    if (!ca_json_is(device, CA_JSON_OBJECT)) {
        ca_json_refuse(r, "device", "is missing, or not an object");
        return;
    }
    ca_json_fields(r, device, texts, NUM_TEXTS, info);
    if (info->name[0] == '\0')
        ca_json_refuse(r, "name", "is empty");
    read_type(r, device, info);
    read_numbers(r, device, info);
    read_sizes(r, device, info);
    ca_json_fields(r, device, flags, NUM_FLAGS, info);
    read_extensions(r, device, info);
    for (size_t n = 0; ca_fact_at(n); n++)
        count++;
    if (ca_json_size(device) != count)
        ca_json_refuse(r, "device", "holds a fact that this version does not know");
    if (r->status == CLATTN_SUCCESS && !ca_facts_check(info, r->reason, r->reason_bytes))
        r->status = CLATTN_FILE_ERROR;
}

static void read_document(struct ca_json_reader *r, const struct ca_json *root,
                          clattn_device_info *info)
{
    static const char *const known[] = {"format", "version", "device", "sources", "assumed"};
    size_t members = 0;

    if (!ca_json_is_format(root, "clattn-profile"))
        ca_json_refuse(r, "format", "is not \"clattn-profile\"");
    ca_json_version(r, root, "version");
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        members += ca_json_get(root, known[n]) != NULL;
    if (ca_json_size(root) != members)
        ca_json_refuse(r, "the profile", "holds a member that this version does not know");
    if (r->status == CLATTN_SUCCESS)
        read_device(r, ca_json_get(root, "device"), info);
}

static clattn_status parse(const char *text, size_t text_bytes, clattn_device_info *info,
                           char *reason, size_t reason_bytes)
{
    struct ca_json_reader r = {.reason = reason, .reason_bytes = reason_bytes};
    static const clattn_device_info nothing = {.struct_size = sizeof nothing};
    clattn_device_info found = nothing;
    char why[CA_REASON_BYTES] = "text is null";

    if (!text || !CA_FILLABLE(clattn_device_info, "info", info, why))
        return ca_status_with(CLATTN_INVALID_ARGUMENT, reason, reason_bytes, "%s", why);
    struct ca_json *root = ca_json_parse(&r, text, text_bytes, MOST_BYTES, "profile");
    if (root)
        read_document(&r, root, &found);
    ca_json_free(root);
    ca_struct_fill(info, r.status == CLATTN_SUCCESS ? &found : &nothing, sizeof found);
    return r.status;
}

clattn_status clattn_device_profile_parse(const char *text, size_t text_bytes,
                                          clattn_device_info *info, char *reason,
                                          size_t reason_bytes)
{
    char why[CA_LOG_BYTES] = "";

    return ca_give_reason(parse(text, text_bytes, info, why, sizeof why), why, reason,
                          reason_bytes);
}
