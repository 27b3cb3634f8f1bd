#ifndef HD_CHECKPOINT_NAMES_H
#define HD_CHECKPOINT_NAMES_H

#include "base/status.h"

/* Three naming schemes are in use for the same tensors (doc/checkpoints.md); everything above
 * this folder knows the official one only. */

HD_BEGIN_C

#define HD_NAME_MAX 512 /* bytes of a tensor name with its NUL */

/* Writes the official name of a tensor that a file calls `name`; a name that no scheme knows
 * comes out as it is, without a leading "model.".  Suffixes (scale, weight_scale_2, ...) keep
 * their spelling, because they tell the number format.
 * out      [cap]
 * returns  false when the result does not fit or has more than 24 parts */
bool hd_name_official(char *out, size_t cap, const char *name);

/* The way back: what the Hugging Face scheme calls a tensor of this official name, with and without
 * suffix; another name comes out as it is.  returns  as hd_name_official */
bool hd_name_hugging_face(char *out, size_t cap, const char *official);

HD_END_C
#endif
