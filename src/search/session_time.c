/* SPDX-License-Identifier: Apache-2.0 */
#include "search/session_state.h"

#include <math.h>

/* The largest part of a time budget that is kept for races; and how much more than they probably
 * take. */
static const double RACE_SHARE = 0.18, RACE_RESERVE = 1.25;

double ca_session_seconds(const struct ca_session *session)
{
    const struct ca_session_options *options = session->options;

    return options->clock ? options->clock(options->user) - session->start : 0.0;
}

bool ca_session_is_timed(const struct ca_session *session)
{
    return session->options->clock && session->options->max_seconds > 0.0;
}

/* The seconds that races will probably take, from that of task `first` on. */
static double race_seconds(const struct ca_session *session, size_t first)
{
    double sum = 0.0;

    for (size_t t = first; t < session->num_tasks; t++)
        sum += ca_session_race_readings(&session->tasks[t]) * session->tasks[t].round_seconds;
    return sum;
}

/* When races begin. */
static double search_end(const struct ca_session *session)
{
    const double all = session->options->max_seconds;

    return all - fmin(RACE_SHARE * all, RACE_RESERVE * race_seconds(session, 0));
}

/* Seconds that one configuration takes, searching included. */
static double cost(const struct ca_session *session)
{
    if (session->tries == 0)
        return 0.0;
    return (ca_session_seconds(session) - session->noise_seconds) / (double)session->tries;
}

bool ca_session_may_try(const struct ca_session *session)
{
    const size_t most = session->options->max_evaluations;

    if (session->ended || session->failed || (most != 0 && session->evaluations >= most))
        return false;
    if (!ca_session_is_timed(session) || session->tries == 0)
        return true;
    return ca_session_seconds(session) + cost(session) <= search_end(session);
}

double ca_session_tries_left(const struct ca_session *session)
{
    const size_t all = session->space->count, most = session->options->max_evaluations;
    double left = (double)(most != 0 && most < all ? most : all) - (double)session->evaluations;

    if (ca_session_is_timed(session) && session->tries > 0)
        left = fmin(left, (search_end(session) - ca_session_seconds(session)) / cost(session));
    return fmax(left, 0.0);
}

double ca_session_seconds_left(const struct ca_session *session)
{
    const double seconds = ca_session_seconds(session);
    double left;

    if (session->phase == CA_PHASE_RACE)
        left = session->race_left + race_seconds(session, session->num_decided + 1);
    else
        left = ca_session_tries_left(session) * cost(session) + race_seconds(session, 0);
    if (ca_session_is_timed(session))
        left = fmin(left, session->options->max_seconds - seconds);
    return fmax(left, 0.0);
}

double ca_session_race_end(const struct ca_session *session)
{
    const double seconds = ca_session_seconds(session);
    const double mine = race_seconds(session, session->num_decided) -
                        race_seconds(session, session->num_decided + 1);
    const double all = race_seconds(session, session->num_decided);

    if (!ca_session_is_timed(session))
        return INFINITY;
    return seconds + (session->options->max_seconds - seconds) * (all > 0.0 ? mine / all : 1.0);
}
