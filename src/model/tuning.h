/* Parameters as text, for who has a file open: see tug_model_write() (tugboat/model.h). */
#ifndef TUG_MODEL_TUNING_H
#define TUG_MODEL_TUNING_H

#include <stdio.h>

#include "tugboat/model.h"

/* Writes what tug_model_read() understands. Errors are the stream's. */
void tug_model_print(FILE *file, const struct tug_model_parameters *parameters);

#endif
