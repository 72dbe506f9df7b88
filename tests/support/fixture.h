/* SPDX-License-Identifier: Apache-2.0 */
/* The fixture of a test on a device: a context whose log is kept, a queue, and the count of
 * OpenCL objects, which must be zero again in the end. */
#ifndef TEST_FIXTURE_H
#define TEST_FIXTURE_H

#include "families/registry.h"
#include <clattn/clattn.h>

enum { FIXTURE_LOG_BYTES = 8192 };

/* The sentences of a context. */
struct log {
    size_t errors, warnings;      /* sentences at those levels */
    char last[FIXTURE_LOG_BYTES]; /* the last error */
};

struct fixture {
    struct log log;
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue; /* in-order */
};

/* Adds to a struct log; the library may call it from several threads. */
void log_message(clattn_log_level level, const char *message, void *log);

/* On the default device (CLATTN_DEVICE chooses). Fails the test if there is none. Programs are
 * neither checked by the library, which would hide what tests look for, nor kept on disk. */
void fixture_open(struct fixture *f);

/* The same with self-checks, and with a folder for programs ("": none). */
void fixture_open_checked(struct fixture *f, const char *cache_directory);

/* Like that, with a device that claims no more than the profile. */
void fixture_open_cached(struct fixture *f, const clattn_device_info *profile,
                         const char *cache_directory);

/* Like fixture_open(), with a device that claims no more than the profile. */
void fixture_open_narrowed(struct fixture *f, const clattn_device_info *profile);

/* .init of a suite whose contexts keep something: unoptimised(), scratch_open(). */
void fixture_folder(void);

/* Skips the test where the device has work-groups of one item only: what it is about needs several. */
void fixture_need_groups(const struct fixture *f);

/* Skips the test unless the device is a CPU: what it is about is for these alone. */
void fixture_need_cpu(const struct fixture *f);

/* A problem of each operation, by clattn_operation, of operands alone that every version of the public structs has. */
extern const char *const fixture_examples[];

/* Returns whether the family's kernels have work-groups of several items on the device, as far as
 * an ordinary problem tells. */
int fixture_has_groups(const struct ca_family *family, const clattn_device_info *device);

/* The work-items of the largest of a family's work-groups, of a normal problem. */
size_t fixture_group_items(const struct ca_family *family, const struct ca_problem *p,
                           const size_t *values, const clattn_device_info *device);

/* Skips likewise if the family of that name has such (NULL, the library's choice, has not). */
void fixture_need_groups_of(const struct fixture *f, const char *name);

/* Fails the test if an OpenCL object of this process is still alive. */
void fixture_close(struct fixture *f);

/* A test with a fixture f of its own, from fixture_open() before it to fixture_close() after it.
 * Criterion does not count failures in a suite's .fini. */
#define DeviceTest(...) DEVICE_TEST_(__VA_ARGS__, .disabled = 0)
#define DEVICE_TEST_(suite, name, ...)                                                             \
    static void suite##_##name##_on_device(struct fixture *f);                                     \
    Test(suite, name, __VA_ARGS__) {                                                               \
        struct fixture own;                                                                        \
        fixture_open(&own);                                                                        \
        suite##_##name##_on_device(&own);                                                          \
        fixture_close(&own);                                                                       \
    }                                                                                              \
    static void suite##_##name##_on_device(struct fixture *f)

/* A plan for the problem's text form that must be had, of the family (NULL: any). */
clattn_plan *fixture_plan(struct fixture *f, const char *problem, const char *family);

/* A plan with a family's tunables ("": those that suit), which must be had; skips the test where the device
 * is not for them. `again` says how to repeat it. */
clattn_plan *fixture_forced_plan(struct fixture *f, const clattn_problem *problem,
                                 const char *family, const char *tunables, const char *again);

/* A problem from its text form, which must parse. */
clattn_problem fixture_problem(const char *text);
/* The same, checked, as the library takes it. */
struct ca_problem fixture_checked(const char *text);

/* A device buffer that must be had; host NULL leaves it undefined. */
cl_mem fixture_buffer(struct fixture *f, size_t bytes, const void *host);

/* A queue of these properties; skips the test if the device has none out of order. */
cl_command_queue fixture_queue(struct fixture *f, cl_command_queue_properties properties);

/* Fails the test if the queue's work, which waits for an event that has not come, is finished. */
void fixture_expect_waiting(cl_command_queue queue, cl_event done);

/* Reads a whole buffer, waiting for all that the fixture's queue holds. */
void fixture_read(struct fixture *f, cl_mem buffer, size_t bytes, void *host);

/* Fails the test, which goes on, unless the call came to `want` and its sentence holds the words. */
void fixture_refused(struct fixture *f, clattn_status status, clattn_status want,
                     const char *words);

/* Fails the test, which goes on, unless clattn_check_tables() says the words of two lists, or, if there
 * are none, that they are sound. */
struct fixture_lists {
    size_t members[2]; /* their places in clattn_forward_tensors */
    size_t counts[2];  /* how many numbers they have */
};
void fixture_expect_lists(struct fixture *f, const clattn_plan *plan,
                          const struct fixture_lists *lists, const cl_int *first,
                          const cl_int *second, const char *words);

/* An attempt in which one call fails. It checks its results besides the status itself, and
 * releases them. */
typedef clattn_status fixture_attempt(struct fixture *f, void *user);

/* Each allocation and each OpenCL call of the attempt fails once, with each error that the headers promise a status
 * for; of an attempt of many calls each run takes the first 40 and a part of the others. It comes to that status and
 * a sentence, and leaks nothing. queue: NULL, or one that is finished each time, and to which a call that only asks
 * leaves nothing where it fails. */
void fixture_fail_each(struct fixture *f, fixture_attempt attempt, void *user,
                       cl_command_queue queue);

/* The same of a call without a plan, with buffers of so many bytes, where its program is built and checked; and what
 * it comes to where the compiler refuses, and where results are wrong. */
typedef clattn_status fixture_call(struct fixture *f, const clattn_buffer buffers[2],
                                   cl_event *done);
void fixture_distrust(const size_t bytes[2], fixture_call call);

/* Returns whether the last error sentence holds the words, and none was lost: it clears the log. */
int fixture_said(struct fixture *f, const char *words);

#endif
