/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/commands/run_peers.h"
#include "cli/interrupt.h"
#include "os/file.h"
#include "os/processor.h"

#include <stdio.h>
#include <string.h>

#define MOST_STARTS 4 /* Three of them anew. */

static bool add(struct peer_choice *choice, const struct peer_kind *kind, struct message *why)
{
    if (choice->count == PEER_MOST)
        return message_set(why, "--peers takes %d at most", PEER_MOST);
    for (size_t n = 0; n < choice->count; n++)
        if (strcmp(choice->kind[n].key, kind->key) == 0)
            return message_set(why, "--peers names '%.100s' twice", kind->key);
    choice->kind[choice->count++] = *kind;
    return true;
}

static bool unknown(const char *name, struct message *why)
{
    char known[128] = "";

    for (const struct peer_kind *kind = peer_kinds; kind->key != NULL; kind++)
        snprintf(known + strlen(known), sizeof known - strlen(known), ", %s", kind->key);
    return message_set(why,
                       "--peers takes all, none, or some of%s and paths of programs, with commas "
                       "between them, not '%.100s'",
                       known + 1, name);
}

bool peer_choice_read(char *text, struct peer_choice *choice, struct message *why)
{
    choice->count = 0;
    if (strcmp(text, "none") == 0)
        return true;
    if (strcmp(text, "all") == 0) {
        for (const struct peer_kind *kind = peer_kinds; kind->key != NULL; kind++)
            if (!add(choice, kind, why))
                return false;
        return true;
    }
    for (char *name = text, *next; name != NULL; name = next) {
        next = strchr(name, ',');
        if (next != NULL)
            *next++ = '\0';
        const struct peer_kind path = peer_kind_path(name);
        const struct peer_kind *kind = ca_path_name(name) != name ? &path : peer_kind_find(name);
        if (kind == NULL)
            return unknown(name, why);
        if (!add(choice, kind, why))
            return false;
    }
    return true;
}

static enum peer_answer start(struct run_peers *peers, struct run_peer *peer)
{
    peer->starts++;
    return peer_start(&peer->peer, peer->kind, peers->device, peers->info, peers->threads,
                      &peer->why);
}

/* Number of threads: as many as the device uses, if that is the host's processor. */
static unsigned count_threads(const clattn_device_info *info)
{
    return info->compute_units > ca_processors() ? ca_processors() : info->compute_units;
}

void run_peers_open(struct run_peers *peers, const struct peer_choice *choice,
                    struct device_run *device)
{
    *peers = (struct run_peers){.info = &device->info, .threads = count_threads(&device->info)};
    snprintf(peers->device, sizeof peers->device, "%zu", device->index);
    for (size_t n = 0; n < choice->count && !ca_interrupted(); n++) {
        const struct peer_kind *kind = &choice->kind[n];
        struct run_peer *peer = &peers->peer[peers->count];
        if (!peer_kind_suits(kind, device->info.type))
            continue;
        *peer = (struct run_peer){.kind = kind, .note = device->num_peers};
        struct peer_note *note = &device->peer[device->num_peers++];
        const bool started = start(peers, peer) == PEER_OK;
        snprintf(note->name, sizeof note->name, "%s", started ? peer->peer.name : kind->name);
        if (started) {
            memcpy(note->version, peer->peer.version, sizeof note->version);
            memcpy(note->method, peer->peer.method, sizeof note->method);
            peers->count++;
        } else {
            note->missing = peer->why;
        }
    }
}

bool run_peer_ready(struct run_peers *peers, struct run_peer *peer)
{
    if (!peer_runs(&peer->peer) && peer->starts < MOST_STARTS)
        start(peers, peer);
    return peer_runs(&peer->peer) ||
           message_set(&peer->why, "it has crashed or hung %d times and is not started anew",
                       MOST_STARTS);
}

void run_peers_close(struct run_peers *peers)
{
    for (size_t n = 0; n < peers->count; n++)
        peer_end(&peers->peer[n].peer);
    peers->count = 0;
}
