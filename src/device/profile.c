/*
 * The JSON form of a profile (bench/profiles/README.md has it for people):
 *
 *     {"format": "clattn-profile", "version": 1,
 *      "device": {FACT: VALUE, ...},     each fact once, and no others
 *      "sources": [...], "assumed": {...}}     for people; not looked into
 */
#include "base/log.h"
#include "device/facts.h"

#include <jansson.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, NUM_TEXTS = 7, NUM_FLAGS = 3, NUM_OTHERS = 3 };

struct reader {
    const json_t *device;
    char *reason;
    size_t reason_bytes;
    int ok;
};

/* Only the first complaint counts. */
static void refuse(struct reader *r, const char *key, const char *what)
{
    if (r->ok)
        ca_reason(r->reason, r->reason_bytes, "%s %s", key, what);
    r->ok = 0;
}

static const json_t *get(struct reader *r, const char *key)
{
    const json_t *value = json_object_get(r->device, key);

    if (!value)
        refuse(r, key, "is missing");
    return value;
}

static void read_text(struct reader *r, const char *key, char *text, size_t text_bytes)
{
    const json_t *value = get(r, key);

    if (value && !json_is_string(value))
        refuse(r, key, "is not a text");
    else if (value && json_string_length(value) >= text_bytes)
        refuse(r, key, "is longer than the library keeps");
    else if (value)
        memcpy(text, json_string_value(value), json_string_length(value) + 1);
}

static void read_texts(struct reader *r, clattn_device_info *info)
{
    const struct {
        const char *key;
        char *text;
        size_t bytes;
    } texts[NUM_TEXTS] = {
        {"name", info->name, sizeof info->name},
        {"vendor", info->vendor, sizeof info->vendor},
        {"driver_version", info->driver_version, sizeof info->driver_version},
        {"device_version", info->device_version, sizeof info->device_version},
        {"platform_name", info->platform_name, sizeof info->platform_name},
        {"platform_version", info->platform_version, sizeof info->platform_version},
        {"architecture", info->architecture, sizeof info->architecture},
    };

    for (size_t n = 0; n < NUM_TEXTS; n++)
        read_text(r, texts[n].key, texts[n].text, texts[n].bytes);
    if (r->ok && info->name[0] == '\0')
        refuse(r, "name", "is empty");
}

static void read_flags(struct reader *r, clattn_device_info *info)
{
    const struct {
        const char *key;
        cl_bool *flag;
    } flags[NUM_FLAGS] = {{"local_memory_dedicated", &info->local_memory_dedicated},
                          {"compiler_available", &info->compiler_available},
                          {"little_endian", &info->little_endian}};

    for (size_t n = 0; n < NUM_FLAGS; n++) {
        const json_t *value = get(r, flags[n].key);
        if (value && !json_is_boolean(value))
            refuse(r, flags[n].key, "is neither true nor false");
        *flags[n].flag = json_is_true(value);
    }
}

/* Beyond what the member holds is beyond its limits. */
static void read_numbers(struct reader *r, clattn_device_info *info)
{
    const struct ca_fact *fact;

    for (size_t n = 0; (fact = ca_fact_at(n)) != NULL; n++) {
        const json_t *value = get(r, fact->name);
        const json_int_t number = json_integer_value(value);
        if (value && !json_is_integer(value))
            refuse(r, fact->name, "is not a whole number");
        else if (r->ok && (number < (json_int_t)fact->least || number > (json_int_t)fact->most)) {
            ca_reason(r->reason, r->reason_bytes,
                      "%s is %" JSON_INTEGER_FORMAT " but must be from %llu to %llu", fact->name,
                      number, (unsigned long long)fact->least, (unsigned long long)fact->most);
            r->ok = 0;
        } else if (r->ok)
            ca_fact_set(fact, info, (cl_ulong)number);
    }
}

static void read_sizes(struct reader *r, clattn_device_info *info)
{
    const json_t *sizes = get(r, "max_work_item_sizes");

    if (!sizes)
        return;
    for (size_t n = 0; n < 3; n++) {
        const json_t *size = json_array_get(sizes, n);
        const json_int_t number = json_integer_value(size);
        if (json_array_size(sizes) != 3 || !json_is_integer(size) || number < 1 || number > 1 << 30)
            refuse(r, "max_work_item_sizes", "is not three whole numbers from 1 to 1073741824");
        else
            info->max_work_item_sizes[n] = (size_t)number;
    }
}

static void read_type(struct reader *r, clattn_device_info *info)
{
    static const struct {
        const char *word;
        cl_device_type type;
    } types[] = {{"cpu", CL_DEVICE_TYPE_CPU},
                 {"gpu", CL_DEVICE_TYPE_GPU},
                 {"accelerator", CL_DEVICE_TYPE_ACCELERATOR}};
    const char *word = json_string_value(get(r, "type"));

    for (size_t n = 0; word && n < sizeof types / sizeof *types; n++)
        if (strcmp(word, types[n].word) == 0)
            info->type = types[n].type;
    if (info->type == 0)
        refuse(r, "type", "is none of \"cpu\", \"gpu\" and \"accelerator\"");
}

static void read_extensions(struct reader *r, clattn_device_info *info)
{
    const json_t *list = get(r, "extensions");
    size_t length = 0;

    if (list && !json_is_array(list))
        refuse(r, "extensions", "is not a list of texts");
    for (size_t n = 0; r->ok && n < json_array_size(list); n++) {
        const json_t *name = json_array_get(list, n);
        const char *text = json_string_value(name);
        if (!text || !*text || strpbrk(text, " \t\n"))
            refuse(r, "extensions", "holds something that is not one word");
        else if (length + json_string_length(name) + 2 > sizeof info->extensions)
            refuse(r, "extensions", "are longer than the library keeps");
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

static void read_device(struct reader *r, clattn_device_info *info)
{
    size_t count = NUM_TEXTS + NUM_FLAGS + NUM_OTHERS;

    if (!json_is_object(r->device)) {
        refuse(r, "device", "is missing, or not an object");
        return;
    }
    read_texts(r, info);
    read_type(r, info);
    read_numbers(r, info);
    read_sizes(r, info);
    read_flags(r, info);
    read_extensions(r, info);
    for (size_t n = 0; ca_fact_at(n); n++)
        count++;
    if (json_object_size(r->device) != count)
        refuse(r, "device", "holds a fact that this version does not know");
    if (r->ok)
        r->ok = ca_facts_check(info, r->reason, r->reason_bytes);
}

static void read_document(struct reader *r, const json_t *root, clattn_device_info *info)
{
    static const char *const known[] = {"format", "version", "device", "sources", "assumed"};
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");
    size_t members = 0;

    if (!format || strcmp(format, "clattn-profile") != 0)
        refuse(r, "format", "is not \"clattn-profile\"");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        refuse(r, "version", "is not 1, the only one that this version of clattn knows");
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        members += json_object_get(root, known[n]) != NULL;
    if (json_object_size(root) != members)
        refuse(r, "the profile", "holds a member that this version does not know");
    r->device = json_object_get(root, "device");
    if (r->ok)
        read_device(r, info);
}

clattn_status clattn_device_profile_parse(const char *text, size_t text_bytes,
                                          clattn_device_info *info, char *reason,
                                          size_t reason_bytes)
{
    struct reader r = {NULL, reason, reason_bytes, 1};
    json_error_t error = {.text = ""};

    if (!text || !info || info->struct_size != sizeof *info) {
        ca_reason(reason, reason_bytes, "text or info is null, or struct_size is wrong");
        return CLATTN_INVALID_ARGUMENT;
    }
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    ca_reason(reason, reason_bytes, "%s", "");
    if (text_bytes > MOST_BYTES) {
        ca_reason(reason, reason_bytes, "it is larger than any profile");
        return CLATTN_FILE_ERROR;
    }
    json_t *root = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root && error.text[0] == '\0') { /* the parser's own allocations fail without a word */
        ca_reason(reason, reason_bytes, "there is no host memory for it");
        return CLATTN_OUT_OF_MEMORY;
    }
    if (!root) {
        ca_reason(reason, reason_bytes, "line %d is not JSON, or gives a member twice", error.line);
        return CLATTN_FILE_ERROR;
    }
    read_document(&r, root, info);
    json_decref(root);
    if (r.ok)
        return CLATTN_SUCCESS;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    return CLATTN_FILE_ERROR;
}
