/* SPDX-License-Identifier: Apache-2.0 */
/* The other libraries of a run: started once for a device, and anew when they have crashed. */
#ifndef CLATTN_BENCH_RUN_PEERS_H
#define CLATTN_BENCH_RUN_PEERS_H

#include "bench/peer/peer.h"
#include "bench/records/results.h"

/* The peers that --peers names. */
struct peer_choice {
    struct peer_kind kind[PEER_MOST];
    size_t count;
};

/* "all", "none", or keys and paths of programs with commas between them. The choice borrows the
 * text, and cuts it at the commas. */
bool peer_choice_read(char *text, struct peer_choice *choice, struct message *why);

struct run_peer {
    struct peer peer;
    const struct peer_kind *kind;
    size_t note; /* Index of the peer's note in the device's results. */
    unsigned starts;
    struct message why; /* Why the peer does not run any more. */
};

struct run_peers {
    struct run_peer peer[PEER_MOST];
    size_t count;
    char device[24]; /* The device's index, as text for the peers. */
    const clattn_device_info *info;
    unsigned threads;
};

/* Starts those that suit the device and notes in its results who they are, or why they are not
 * there. Interrupted, the rest is left out. */
void run_peers_open(struct run_peers *peers, const struct peer_choice *choice,
                    struct device_run *device);

/* Returns whether it runs; one that crashed is started anew, but not for ever. */
bool run_peer_ready(struct run_peers *peers, struct run_peer *peer);

void run_peers_close(struct run_peers *peers);

#endif
