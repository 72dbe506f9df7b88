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

static const json_t *get(struct ca_json_reader *r, const json_t *device, const char *key)
{
    const json_t *value = json_object_get(device, key);

    if (!value)
        ca_json_refuse(r, key, "is missing");
    return value;
}

/* Reads the numbers; one that its member cannot hold is beyond its limits. */
static void read_numbers(struct ca_json_reader *r, const json_t *device, clattn_device_info *info)
{
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        const json_t *value = get(r, device, fact->name);
        const json_int_t number = json_integer_value(value);
        if (value && !json_is_integer(value))
            ca_json_refuse(r, fact->name, "is not a whole number");
        else if (r->status == CLATTN_SUCCESS &&
                 (number < (json_int_t)fact->least || number > (json_int_t)fact->most)) {
            r->status = CLATTN_FILE_ERROR;
            ca_reason(r->reason, r->reason_bytes,
                      "%s is %" JSON_INTEGER_FORMAT " but must be from %llu to %llu", fact->name,
                      number, (unsigned long long)fact->least, (unsigned long long)fact->most);
        } else if (r->status == CLATTN_SUCCESS)
            ca_fact_set(fact, info, (cl_ulong)number);
    }
}

static void read_sizes(struct ca_json_reader *r, const json_t *device, clattn_device_info *info)
{
    const json_t *sizes = get(r, device, "max_work_item_sizes");

    if (!sizes)
        return;
    for (size_t n = 0; n < 3; n++) {
        const json_t *size = json_array_get(sizes, n);
        const json_int_t number = json_integer_value(size);
        if (json_array_size(sizes) != 3 || !json_is_integer(size) || number < 1 || number > 1 << 30)
            ca_json_refuse(r, "max_work_item_sizes",
                           "is not three whole numbers from 1 to 1073741824");
        else
            info->max_work_item_sizes[n] = (size_t)number;
    }
}

static void read_type(struct ca_json_reader *r, const json_t *device, clattn_device_info *info)
{
    static const struct {
        const char *word;
        cl_device_type type;
    } types[] = {{"cpu", CL_DEVICE_TYPE_CPU},
                 {"gpu", CL_DEVICE_TYPE_GPU},
                 {"accelerator", CL_DEVICE_TYPE_ACCELERATOR}};
    const char *word = json_string_value(get(r, device, "type"));

    for (size_t n = 0; word && n < sizeof types / sizeof *types; n++)
        if (strcmp(word, types[n].word) == 0)
            info->type = types[n].type;
    if (info->type == 0)
        ca_json_refuse(r, "type", "is none of \"cpu\", \"gpu\" and \"accelerator\"");
}

static void read_extensions(struct ca_json_reader *r, const json_t *device,
                            clattn_device_info *info)
{
    const json_t *list = get(r, device, "extensions");
    size_t length = 0;

    if (list && !json_is_array(list))
        ca_json_refuse(r, "extensions", "is not a list of texts");
    for (size_t n = 0; r->status == CLATTN_SUCCESS && n < json_array_size(list); n++) {
        const json_t *name = json_array_get(list, n);
        const char *text = json_string_value(name);
        if (!text || !*text || strpbrk(text, " \t\n"))
            ca_json_refuse(r, "extensions", "holds something that is not one word");
        else if (length + json_string_length(name) + 2 > sizeof info->extensions)
            ca_json_refuse(r, "extensions", "are longer than the library keeps");
        else {
            if (length > 0)
                info->extensions[length++] = ' ';
            memcpy(info->extensions + length, text, json_string_length(name) + 1);
            length += json_string_length(name);
        }
    }
    info->fp16 = ca_facts_have(info, "cl_khr_fp16");
    info->fp64 = ca_facts_have(info, "cl_khr_fp64");
}

static void read_device(struct ca_json_reader *r, const json_t *device, clattn_device_info *info)
{
    size_t count = NUM_TEXTS + NUM_FLAGS + NUM_OTHERS;

    if (!json_is_object(device)) {
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
    if (json_object_size(device) != count)
        ca_json_refuse(r, "device", "holds a fact that this version does not know");
    if (r->status == CLATTN_SUCCESS && !ca_facts_check(info, r->reason, r->reason_bytes))
        r->status = CLATTN_FILE_ERROR;
}

static void read_document(struct ca_json_reader *r, const json_t *root, clattn_device_info *info)
{
    static const char *const known[] = {"format", "version", "device", "sources", "assumed"};
    size_t members = 0;

    if (!ca_json_is_format(root, "clattn-profile"))
        ca_json_refuse(r, "format", "is not \"clattn-profile\"");
    ca_json_version(r, root, "version");
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        members += json_object_get(root, known[n]) != NULL;
    if (json_object_size(root) != members)
        ca_json_refuse(r, "the profile", "holds a member that this version does not know");
    if (r->status == CLATTN_SUCCESS)
        read_device(r, json_object_get(root, "device"), info);
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
    json_t *root = ca_json_parse(&r, text, text_bytes, MOST_BYTES, "profile");
    if (root)
        read_document(&r, root, &found);
    json_decref(root);
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
