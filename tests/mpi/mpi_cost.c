/* SPDX-License-Identifier: Apache-2.0 */
/* The cost model of clattn/mpi.h against arithmetic by hand, and which mode it finds right where: mpi_cost
 *
 * Needs no ranks. Prints a line for each claim and ends with 1 if one is wrong. */
#include <clattn/mpi.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

static int failures;

static void claim(const char *what, const int holds)
{
    printf("%s %s\n", holds ? "ok  " : "FAIL", what);
    failures += !holds;
}

static void claim_number(const char *what, const double got, const double want)
{
    char line[200];

    snprintf(line, sizeof line, "%s: %.9g, by hand %.9g", what, got, want);
    claim(line, fabs(got - want) <= 1e-9 * fabs(want));
}

/* Devices of 1 TFLOP/s, copies of 10 GB/s, messages of 1 GB/s: all ranks on one node. */
static clattn_mpi_rates rates_of_one_node(void)
{
    return (clattn_mpi_rates){.struct_size = sizeof(clattn_mpi_rates),
                              .flops = 1e12,
                              .copy_bandwidth = 1e10,
                              .overhead = 1e-5,
                              .node_ranks = 1 << 20,
                              .node_latency = 1e-6,
                              .node_bandwidth = 1e9,
                              .latency = 1e-5,
                              .bandwidth = 1e8};
}

static clattn_mpi_prediction predict(const char *text, const int ranks, clattn_mpi_options options,
                                     const clattn_mpi_rates *rates)
{
    clattn_mpi_prediction prediction = {.struct_size = sizeof prediction};
    clattn_problem p;
    char reason[200] = "";

    options.struct_size = sizeof options;
    options.rates = rates;
    const clattn_status status =
        clattn_problem_parse(text, &p, reason, sizeof reason) == CLATTN_SUCCESS
            ? clattn_mpi_predict(&p, ranks, &options, &prediction)
            : CLATTN_INVALID_PROBLEM;
    if (status != CLATTN_SUCCESS) {
        printf("%s: %s %s\n", text, clattn_status_string(status), reason);
        failures++;
    }
    return prediction;
}

/* 4 heads, 2 kv heads, 4096 tokens of dim 64 in f32, on 4 ranks: k and v of a shard are 1 MiB each. */
static void count_ring(void)
{
    clattn_mpi_rates rates = rates_of_one_node();
    const clattn_mpi_options ring = {.mode = CLATTN_MPI_RING};

    rates.flops = 2e12;
    const clattn_mpi_prediction p = predict("fwd f32 h4/2 q4096 k4096 d64", 4, ring, &rates);
    const double keys = 2 * 2 * 1024 * 64 * 4, flops = 4.0 * 4096 * 4096 * 4 * 64;
    const double computing = flops / 4 / 2e12 + 4 * 1e-5, sending = 1e-6 + keys / 1e9;

    claim_number("ring, forward: seconds that compute", p.seconds_computing, computing);
    claim_number("... that copy", p.seconds_staging, 4 * keys / 1e10);
    claim_number("... that wait", p.seconds_waiting, 3 * (sending - computing / 4));
    claim_number("... and together", p.seconds, computing + p.seconds_staging + p.seconds_waiting);
    claim_number("... and bytes", p.bytes_sent, 3 * keys);

    /* A slow device hides all messages but the way home of the gradients, which are f32 as well. */
    clattn_mpi_rates slow = rates;
    slow.flops = 1e9;
    const clattn_mpi_prediction b = predict("bwd f32 h4/2 q4096 k4096 d64", 4, ring, &slow);
    claim_number("ring, backward: seconds that compute", b.seconds_computing,
                 flops * 2.5 / 4 / 1e9 + 4 * 1e-5);
    claim_number("... that wait", b.seconds_waiting, 1e-6 + keys / 1e9);
    claim_number("... that copy", b.seconds_staging, (4 + 3 + 2 + 1) * keys / 1e10);
    claim_number("... and bytes", b.bytes_sent, 6 * keys);

    const clattn_mpi_prediction halves = predict("bwd bf16 h4/2 q4096 k4096 d64", 4, ring, &slow);
    claim_number("in bf16 keys are half as large, gradients as in f32", halves.bytes_sent,
                 3 * keys / 2 + 3 * keys);
}

static void count_heads(void)
{
    clattn_mpi_rates rates = rates_of_one_node();
    const double q = 4 * 1024 * 64 * 4, keys = q; /* k and v together are as large as q */

    const clattn_mpi_prediction p = predict("fwd f32 h4/2 q2048 k2048 d64", 2,
                                            (clattn_mpi_options){.mode = CLATTN_MPI_HEADS}, &rates);
    claim_number("heads, forward: bytes", p.bytes_sent, (q + keys + q) / 2);
    claim_number("... seconds that wait", p.seconds_waiting, 3 * 1e-6 + 1.5 * q / 1e9);
    claim_number("... seconds that compute", p.seconds_computing,
                 4.0 * 2048 * 2048 * 2 * 64 / 1e12 + 1e-5);

    rates.node_ranks = 2;
    const clattn_mpi_prediction m =
        predict("fwd f32 h4/2 q4096 k4096 d64", 4,
                (clattn_mpi_options){.mode = CLATTN_MPI_HEADS_RING, .heads_ranks = 2}, &rates);
    const double computing = 4.0 * 2048 * 2048 * 2 * 64 / 1e12 + 1e-5;
    /* Two rings leave each node, so that each has half of its bandwidth. */
    claim_number("heads and ring over two nodes: seconds that wait", m.seconds_waiting,
                 3 * 1e-6 + 1.5 * q / 1e9 + 1e-5 + keys / 5e7 - computing);
    const clattn_mpi_prediction h = predict("fwd f32 h4 q4096 k4096 d64", 4,
                                            (clattn_mpi_options){.mode = CLATTN_MPI_HEADS}, &rates);
    claim_number("heads over two nodes: seconds that wait", h.seconds_waiting,
                 3 * 1e-5 + 4 * q / 4 * 2 * 2 / 1e8);
    const clattn_mpi_prediction s = predict(
        "fwd f32 h4 q2 k8192 d64", 4, (clattn_mpi_options){.mode = CLATTN_MPI_SPLIT_KV}, &rates);
    claim_number("split keys: bytes", s.bytes_sent, 3 * 4 * 2 * 65 * 4);
}

/* Pairs that masks hide are neither computed nor sent, and zigzag balances the visible ones. */
static void count_visible(void)
{
    const clattn_mpi_rates rates = rates_of_one_node();
    const clattn_mpi_options ring = {.mode = CLATTN_MPI_RING};
    const clattn_mpi_prediction all = predict("fwd f32 h2 q8192 k8192 d64", 8, ring, &rates);
    const clattn_mpi_prediction causal =
        predict("fwd f32 h2 q8192 k8192 d64 causal=tl", 8, ring, &rates);
    const clattn_mpi_prediction window =
        predict("fwd f32 h2 q8192 k8192 d64 causal=tl window=1000,*", 8, ring, &rates);

    claim("a causal problem computes half in as many executions, one a step",
          fabs((causal.seconds_computing - 8 * 1e-5) / (all.seconds_computing - 8 * 1e-5) - 0.5) <
              0.01);
    claim("... and sends all", causal.bytes_sent == all.bytes_sent);
    claim_number("a window of less than a shard is one step of the ring", window.bytes_sent,
                 all.bytes_sent / 7);
}

static clattn_mpi_mode best(const char *text, const int ranks, const clattn_mpi_rates *rates,
                            int *heads_ranks)
{
    const clattn_mpi_prediction p = predict(text, ranks, (clattn_mpi_options){.mode = 0}, rates);

    *heads_ranks = p.heads_ranks;
    return p.mode;
}

static void choose(void)
{
    static const char small[] = "fwd bf16 h8 q2048 k2048 d128 causal=tl",
                      large[] = "fwd bf16 h8 q1048576 k1048576 d128 causal=tl",
                      three[] = "fwd bf16 h9/3 q65536 k65536 d128";
    clattn_mpi_rates rates = rates_of_one_node(), slow = rates, nodes = rates;
    int heads_ranks;

    claim("one rank: the ring, which copies nothing",
          best(large, 1, &rates, &heads_ranks) == CLATTN_MPI_RING);
    slow.node_latency = slow.overhead = 1e-2;
    claim("where every message and execution takes long: few of them",
          best(small, 32, &slow, &heads_ranks) == CLATTN_MPI_HEADS_RING && heads_ranks == 8);
    claim("gradients of long contexts: the ring, in which they travel while the next ones are "
          "computed",
          best("bwd bf16 h9/3 q1048576 k1048576 d128 causal=tl", 8, &rates, &heads_ranks) ==
              CLATTN_MPI_RING);
    nodes.node_ranks = 4;
    claim("a slow network between nodes, which one rank of each uses: the ring",
          best("fwd bf16 h9/3 q65536 k65536 d128 causal=tl", 16, &nodes, &heads_ranks) ==
              CLATTN_MPI_RING);
    claim("a mask is not exchanged", best("fwd bf16 h8 q65536 k65536 d128 mask=qk", 8, &rates,
                                          &heads_ranks) < CLATTN_MPI_HEADS);
    rates.node_bandwidth = 1e12;
    rates.flops = 1e15;
    nodes = rates;
    nodes.node_ranks = 3;
    nodes.bandwidth = 1e9;
    claim("nodes of three, three kv heads: heads within, a ring between",
          best(three, 12, &nodes, &heads_ranks) == CLATTN_MPI_HEADS_RING && heads_ranks == 3);
    for (int mode = CLATTN_MPI_RING; mode <= CLATTN_MPI_HEADS; mode++) {
        const clattn_mpi_options of = {.mode = (clattn_mpi_mode)mode};
        const double least = predict(large, 8, (clattn_mpi_options){.mode = 0}, &rates).seconds;
        claim("no mode is 5 % faster than the chosen one",
              predict(large, 8, of, &rates).seconds >= 0.95 * least);
    }
}

static void refuse(void)
{
    static const char *const of_one_device[] = {
        "fwd f32 h2 q64 k64 d8 lse keysums", "fwd f32 h2 q64 k64 d8 invariant",
        "fwd f32 h2 q64 k64 d8 precision=int8", "bwd f32 h2 q64 k64 d8 dlse"};
    clattn_mpi_prediction prediction = {.struct_size = sizeof prediction};
    clattn_mpi_rates rates = rates_of_one_node();
    clattn_mpi_options options = {.struct_size = sizeof options, .rates = &rates};
    clattn_problem p;

    (void)clattn_problem_parse("fwd f32 h3 q64 k64 d8", &p, NULL, 0);
    claim("no ranks", clattn_mpi_predict(&p, 0, &options, &prediction) == CLATTN_INVALID_ARGUMENT);
    options.mode = CLATTN_MPI_HEADS;
    claim("three heads for two ranks",
          clattn_mpi_predict(&p, 2, &options, &prediction) == CLATTN_UNSUPPORTED);
    options.mode = CLATTN_MPI_RING;
    rates.flops = 0;
    claim("a device that computes nothing",
          clattn_mpi_predict(&p, 2, &options, &prediction) == CLATTN_INVALID_ARGUMENT);
    rates.flops = NAN;
    claim("a rate that is no number",
          clattn_mpi_predict(&p, 2, &options, &prediction) == CLATTN_INVALID_ARGUMENT);
    options.rates = NULL;
    claim("no rates", clattn_mpi_predict(&p, 2, &options, &prediction) == CLATTN_INVALID_ARGUMENT);
    rates = rates_of_one_node();
    options.rates = &rates;
    for (size_t n = 0; n < sizeof of_one_device / sizeof *of_one_device; n++) {
        claim(of_one_device[n],
              clattn_problem_parse(of_one_device[n], &p, NULL, 0) == CLATTN_SUCCESS);
        claim(of_one_device[n],
              clattn_mpi_predict(&p, 2, &options, &prediction) == CLATTN_UNSUPPORTED);
    }
    claim("nothing was written", prediction.seconds == 0);
}

/* Structs of headers that are newer or older than the library. */
static void other_versions(void)
{
    struct {
        clattn_mpi_prediction known;
        size_t more[2];
    } prediction = {.known.struct_size = sizeof prediction, .more = {7, 7}};
    struct {
        clattn_mpi_rates known;
        size_t more[2];
    } rates = {.known = rates_of_one_node()};
    struct {
        clattn_mpi_options known;
        size_t more[2];
    } options = {.known = {.struct_size = sizeof options, .mode = CLATTN_MPI_RING}};
    clattn_problem p;

    rates.known.struct_size = sizeof rates;
    options.known.rates = &rates.known;
    (void)clattn_problem_parse("fwd f32 h4/2 q64 k64 d8", &p, NULL, 0);
    claim("newer structs that ask for nothing new",
          clattn_mpi_predict(&p, 4, &options.known, &prediction.known) == CLATTN_SUCCESS);
    claim("... and zeros for what is not known",
          prediction.known.seconds > 0 && prediction.more[0] == 0 && prediction.more[1] == 0);
    rates.more[1] = 1;
    claim("newer rates that do",
          clattn_mpi_predict(&p, 4, &options.known, &prediction.known) == CLATTN_INVALID_ARGUMENT);
    rates.more[1] = 0;
    options.more[0] = 1;
    claim("newer options that do",
          clattn_mpi_predict(&p, 4, &options.known, &prediction.known) == CLATTN_INVALID_ARGUMENT);
    options.more[0] = 0;
    prediction.known = (clattn_mpi_prediction){
        .struct_size = offsetof(clattn_mpi_prediction, seconds_computing), .bytes_held = -1};
    claim("an older prediction gets what it has, and no more",
          clattn_mpi_predict(&p, 4, &options.known, &prediction.known) == CLATTN_SUCCESS &&
              prediction.known.seconds > 0 && prediction.known.bytes_held == -1);
}

int main(void)
{
    count_ring();
    count_heads();
    count_visible();
    choose();
    refuse();
    other_versions();
    printf("the cost model: %d failures\n", failures);
    return failures > 0;
}
