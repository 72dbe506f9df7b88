/* SPDX-License-Identifier: Apache-2.0 */
/* The values of SCORES: what is handed out of scores. */
#pragma once
#define SCORES_RAW 1
#define SCORES_SOFTCAP 2
#define SCORES_BIAS 3
#define SCORES_WEIGHTS 4
#define SCORES_MEAN 5
