/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/programs/store_folder.h"
#include "families/registry.h"
#include "os/lock.h"

#include "families/family.h"
#include "tests/support/tables.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct ca_store *the_store;
struct store_warnings store_said;

void store_begin(void)
{
    scratch_open();
    the_store = store_open(scratch, "1", &store_said);
}

void store_end(void)
{
    ca_store_destroy(the_store);
    scratch_close();
}

void store_again(void)
{
    ca_store_destroy(the_store);
    the_store = store_open(scratch, "1", &store_said);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void store_warn(clattn_log_level level, const char *message, void *warnings)
{
    struct store_warnings *w = warnings;

    pthread_mutex_lock(&lock);
    if (level == CLATTN_LOG_ERROR)
        w->errors++;
    if (level == CLATTN_LOG_WARNING) {
        w->count++;
        snprintf(w->last, sizeof w->last, "%s", message);
    }
    pthread_mutex_unlock(&lock);
}

size_t store_files(void)
{
    return scratch_entries(scratch_path("tuning"));
}

void store_files_lock(void)
{
    const struct scratch_files found = scratch_find("tuning", ".lock");

    cr_assert(found.count == 1);
    cr_assert(ca_lock_try(ca_file_open(CA_NO_FILE, found.paths[0], CA_FILE_CHANGE)) ==
              CA_LOCK_TAKEN);
}

void store_unfused_tunables(size_t n, char *text, size_t text_bytes)
{
    const struct ca_family *family = ca_family_find("unfused");
    size_t values[CA_MAX_TUNABLES], last = family->num_tunables - 1;

    ca_tunables_default(family->tunables, family->num_tunables, values);
    cr_assert(n < family->tunables[last].num_candidates);
    values[last] = family->tunables[last].candidates[n];
    ca_tunables_print(family->tunables, family->num_tunables, values, text, text_bytes);
}

struct ca_store *store_open(const char *folder, const char *driver, struct store_warnings *warnings)
{
    const clattn_device_info dev = table_device_info(1, driver);
    const struct ca_log log = {.callback = store_warn, .user_data = warnings};
    struct ca_store *store;

    memset(warnings, 0, sizeof *warnings);
    store_warn(CLATTN_LOG_INFO, "", warnings); /* mingw allocates a lock when it is taken first */
    store = ca_store_create(folder, &dev, &log);
    cr_assert(store != NULL);
    return store;
}

void store_put(struct ca_store *store, const char *problem_class, size_t config, double seconds)
{
    struct made_entry made;

    cr_assert(ca_store_put(store, problem_class, table_entry(&made, config, seconds), 1) ==
              CLATTN_SUCCESS);
}

size_t store_count(struct ca_store *store, int own)
{
    const struct ca_view view = ca_store_lock(store);
    size_t entries = 0;

    for (size_t d = 0; d < view.table->num_devices; d++)
        for (size_t n = 0; n < view.table->devices[d].num_classes; n++)
            if (!own || &view.table->devices[d] == view.own)
                entries += view.table->devices[d].classes[n].num_entries;
    ca_store_unlock(store);
    return entries;
}

void store_order(struct ca_store *store, const char *problem_class, char text[512])
{
    const struct ca_view view = ca_store_lock(store);
    const struct ca_class *found = ca_device_table_class(view.own, problem_class);

    text[0] = '\0';
    for (size_t n = 0; n < found->num_entries; n++)
        snprintf(text + strlen(text), 512 - strlen(text), "%s%s", n ? ", " : "",
                 found->entries[n].tunables);
    ca_store_unlock(store);
}
