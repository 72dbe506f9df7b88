/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program_function.h"
#include "base/writer.h"
#include "problem/function.h"
#include "problem/operations.h"

#include <stdlib.h>
#include <string.h>

/* The members of `pair`, and those from which NAME_of() takes places in operands. */
static const char pair_text[] = "struct function_pair {\n"
                                "    int batch, head, kv_head, query, key, queries, keys;\n"
                                "    int own_batch, own_head, own_kv_head, own_query, own_key;\n"
                                "};\n";

/* On CPUs tanh() of a float is that of cl/cpu/simd_math.h, which compilers turn into vectors; of vectors it is the
 * compiler's. */
static const char tanh_text[] =
    "#if defined(SIMD_WIDTH) && SIMD_WIDTH > 1\n"
    "#define OF_FUNCTIONS static inline __attribute__((overloadable))\n"
    "OF_FUNCTIONS float function_tanh(const float x);\n"
    "OF_FUNCTIONS float2 function_tanh(const float2 x) { return tanh(x); }\n"
    "#ifndef CLATTN_DECLARES_BUILTINS\n" /* which have none of three */
    "OF_FUNCTIONS float3 function_tanh(const float3 x) { return tanh(x); }\n"
    "#endif\n"
    "OF_FUNCTIONS float4 function_tanh(const float4 x) { return tanh(x); }\n"
    "OF_FUNCTIONS float8 function_tanh(const float8 x) { return tanh(x); }\n"
    "OF_FUNCTIONS float16 function_tanh(const float16 x) { return tanh(x); }\n"
    "#undef OF_FUNCTIONS\n"
    "#pragma push_macro(\"tanh\")\n" /* PoCL has one */
    "#undef tanh\n"
    "#define tanh function_tanh\n"
    "#endif\n";
static const char end_text[] =
    "#undef pair\n#if defined(SIMD_WIDTH) && SIMD_WIDTH > 1\n#pragma pop_macro(\"tanh\")\n#endif\n";

/* NAME_place(), the number of a pair's first element in an operand, and, where it has one alone, NAME_of(). */
static void put_element_of_pair(struct ca_writer *w, const char *kind,
                                const struct ca_function_operand *o)
{
    static const char *const letters = "bhgqk";
    static const char *const places[] = {"batch", "head", "kv_head", "query", "key"};
    int alone = 1;

    for (size_t n = 0; n < o->num_extents; n++) {
        alone = alone && o->extents[n].letter;
        for (size_t m = 0; m < n; m++)
            if (o->extents[n].letter && o->extents[m].letter == o->extents[n].letter)
                return;
    }
    ca_put(
        w,
        "static inline long %s_%s_place(const struct %s_operands o, const struct function_pair p)\n"
        "{\n    long n = 0;\n",
        kind, o->name, kind);
    for (size_t n = 0; n < o->num_extents; n++)
        if (o->extents[n].letter)
            ca_put(w, "    n = n * o.function_size_%c + p.own_%s;\n", o->extents[n].letter,
                   places[strchr(letters, o->extents[n].letter) - letters]);
        else
            ca_put(w, "    n = n * %zuL;\n", o->extents[n].number);
    ca_put(w, "    return n;\n}\n#define %s_place %s_%s_place\n", o->name, kind, o->name);
    if (!alone)
        return;
    ca_put(w,
           "static inline %s %s_%s_of(const struct %s_operands o, const struct function_pair p)\n"
           "{\n    return %s_%s_at(o, %s_%s_place(o, p));\n}\n#define %s_of %s_%s_of\n",
           ca_function_type_of(o->type)->value, kind, o->name, kind, kind, o->name, kind, o->name,
           o->name, kind, o->name);
}

static void put_operands(struct ca_writer *w, const char *kind, const clattn_function *f)
{
    ca_put(w,
           "struct %s_operands {\n    long function_size_b, function_size_h, function_size_g, "
           "function_size_q, function_size_k;\n",
           kind);
    for (size_t n = 0; n < f->num_operands; n++)
        ca_put(w, "    const __global %s *%s;\n", ca_function_type_of(f->operands[n].type)->stored,
               f->operands[n].name);
    for (size_t n = 0; n < f->num_parameters; n++)
        ca_put(w, "    %s %s;\n", f->parameters[n].is_float ? "float" : "int",
               f->parameter_names[n]);
    ca_put(w, "};\n");
    for (size_t n = 0; n < f->num_operands; n++) {
        const struct ca_function_operand *o = &f->operands[n];
        const struct ca_function_type *type = ca_function_type_of(o->type);
        ca_put(w,
               "static inline %s %s_%s_at(const struct %s_operands o, const long n)\n"
               "{\n    const __global %s *const p = o.%s;\n    return %s;\n}\n"
               "#define %s_at %s_%s_at\n",
               type->value, kind, o->name, kind, type->stored, o->name, type->element, o->name,
               kind, o->name);
        put_element_of_pair(w, kind, o);
    }
}

/* Writes the initial values of a function's operands. The numbers are those of its first operand
 * and parameters. */
static void put_initial_values(struct ca_writer *w, const clattn_problem *p, const char *macro,
                               const clattn_function *f, size_t operand, size_t ints, size_t floats)
{
    ca_put(w, "#define %s(args) {%s", macro,
           p->whole_q ? "args->shape->whole_batch, args->shape->whole_heads, "
                        "args->shape->whole_heads / args->shape->group, args->shape->whole_q, "
                        "args->shape->whole_kv"
                      : "args->shape->batch, args->shape->heads, args->shape->kv_heads, "
                        "args->shape->longest_q, args->shape->longest_kv");
    for (size_t n = 0; n < f->num_operands; n++)
        ca_put(w, ", args->function_%zu", operand + n);
    for (size_t n = 0; n < f->num_parameters; n++)
        ca_put(w, ", args->call->function_%s[%zu]", f->parameters[n].is_float ? "floats" : "ints",
               f->parameters[n].number + (f->parameters[n].is_float ? floats : ints));
    ca_put(w, "}\n");
}

static void put_source(struct ca_writer *w, const char *kind, const clattn_function *f,
                       int with_loads)
{
    ca_put(w,
           "#define operands struct %s_operands\n#define score %s\n"
           "#define score_derivative %s_derivative\n#define visible %s\n#line 1 \"%.*s\"\n%s\n"
           "#line 1 \"clattn\"\n%s%s#undef operands\n#undef score\n#undef score_derivative\n"
           "#undef visible\n",
           kind, kind, kind, kind, (int)strcspn(f->name, ":"), f->name, f->compiled,
           f->derived ? f->derived : "", with_loads && f->derived_loads ? f->derived_loads : "");
    for (size_t n = 0; n < f->num_operands; n++)
        ca_put(w, "#undef %s_at\n#undef %s_of\n#undef %s_place\n", f->operands[n].name,
               f->operands[n].name, f->operands[n].name);
}

/* The number of an operand's elements, from the sizes that the kernel's operands hold. */
static void put_elements(struct ca_writer *w, const struct ca_function_operand *o)
{
    ca_put(w, "1");
    for (size_t n = 0; n < o->num_extents; n++)
        if (o->extents[n].letter)
            ca_put(w, " * o.function_size_%c", o->extents[n].letter);
        else
            ca_put(w, " * %zuL", o->extents[n].number);
}

/* The elements before operand n in dfunction; of all, with n as many as there are. */
static void put_elements_before(struct ca_writer *w, const clattn_function *f, size_t n)
{
    ca_put(w, "0L");
    for (size_t m = 0; m < n; m++)
        if (ca_function_type_is_float(f->operands[m].type)) {
            ca_put(w, " + ");
            put_elements(w, &f->operands[m]);
        }
}

/* The loads of floats, by number: which element of dfunction each is of, -1 for none, and its derivative; and how many elements
 * dfunction has. */
static void put_loads(struct ca_writer *w, const clattn_function *f)
{
    static const char arguments[] =
        "(const int load, const float s, const struct function_pair p, "
        "const struct score_function_operands o)\n{\n    long n = -1, end = 0, first = 0;\n\n";

    ca_put(w, "#define SCORE_FUNCTION_LOADS %zu\nstatic inline int score_function_place%s",
           f->num_loads, arguments);
    for (size_t n = 0; n < f->num_loads; n++) {
        ca_put(w, "    if (load == %zu) {\n        n = %s(s, p, o);\n        end = ", n,
               f->loads[n].index);
        put_elements(w, &f->operands[f->loads[n].operand]);
        ca_put(w, ";\n        first = ");
        put_elements_before(w, f, f->loads[n].operand);
        ca_put(w, ";\n    }\n");
    }
    ca_put(w, "    return n >= 0 && n < end ? (int)(first + n) : -1;\n}\n"
              "static inline float score_function_by_load(const int load, const float s, "
              "const struct function_pair p, const struct score_function_operands o)\n{\n");
    for (size_t n = 0; n < f->num_loads; n++)
        ca_put(w, "    if (load == %zu)\n        return %s(s, p, o);\n", n, f->loads[n].derivative);
    ca_put(w,
           "    return 0.0f;\n}\n"
           "static inline long score_function_gradients(const struct score_function_operands o)\n"
           "{\n    return ");
    put_elements_before(w, f, f->num_operands);
    ca_put(w, ";\n}\n");
}

static void put_functions(struct ca_writer *w, const clattn_problem *p)
{
    static const char *const kinds[CA_FUNCTIONS] = {"score_function", "mask_function"};
    static const char *const macros[CA_FUNCTIONS] = {"SCORE_FUNCTION_OPERANDS",
                                                     "MASK_FUNCTION_OPERANDS"};
    const clattn_function *functions[CA_FUNCTIONS];
    size_t operand = 0, ints = 0, floats = 0;

    ca_problem_functions(p, functions);
    if (p->invariant) /* else compilers may fuse a product and a sum in one tile and not in another */
        ca_put(w, "#pragma OPENCL FP_CONTRACT OFF\n");
    ca_put(w, "%s", pair_text);
    if (!functions[0] && !functions[1])
        return;
    ca_put(w, "#define pair struct function_pair\n%s", tanh_text);
    for (int n = 0; n < CA_FUNCTIONS; n++) {
        const clattn_function *f = functions[n];
        if (!f)
            continue;
        put_operands(w, kinds[n], f);
        put_initial_values(w, p, macros[n], f, operand, ints, floats);
        put_source(w, kinds[n], f, p->dfunction);
        if (p->dfunction && n == CLATTN_SCORE_FUNCTION)
            put_loads(w, f);
        if (n == CLATTN_SCORE_FUNCTION)
            ca_put(w,
                   "#define SCORE_OF_DISTANCE %d\n#define SCORE_HIDES_DISTANCES %d\n"
                   "#define SCORE_LOADS_OF_DISTANCE %d\n",
                   f->of_distance, f->hides_distances, f->loads_of_distance);
        if (n == CLATTN_MASK_FUNCTION) /* for marks (cl/score/mark_pairs.h) */
            ca_put(w, "#define MASK_FUNCTION_OF_BATCHES %d\n#define MASK_FUNCTION_OF_HEADS %d\n",
                   ca_function_asks_for(f, 0), ca_function_asks_for(f, 1));
        operand += f->num_operands;
        ints += f->num_ints;
        floats += f->num_floats;
    }
    ca_put(w, "%s", end_text);
}

char *ca_program_function_text(const clattn_problem *p)
{
    struct ca_writer counted = {NULL, 0, 0};

    if (p && ca_is_attention(p))
        put_functions(&counted, p);
    char *text = malloc(counted.length + 1);
    if (!text)
        return NULL;
    text[0] = '\0';
    struct ca_writer written = {text, counted.length + 1, 0};
    if (counted.length > 0)
        put_functions(&written, p);
    return text;
}
