/*
 * Tugboat: version and error codes. Every other public header uses this one.
 *
 * Functions of the library return 0 or a negative TUG_ERR_* code. Any thread may call the functions
 * of this header at any time, also before MPI is initialised and after it is finalised. They never
 * block.
 */
#ifndef TUGBOAT_TUGBOAT_H
#define TUGBOAT_TUGBOAT_H

#ifdef __cplusplus
extern "C" {
#endif

#define TUG_VERSION_MAJOR 0
#define TUG_VERSION_MINOR 2
#define TUG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TUG_API __attribute__((visibility("default")))
#else
#define TUG_API
#endif

enum tug_error {
    TUG_OK = 0,
    TUG_ERR_INVALID = -1,     /* an argument is out of its range */
    TUG_ERR_SETTING = -2,     /* a TUGBOAT_* variable has an invalid value */
    TUG_ERR_NO_MEMORY = -3,   /* memory could not be allocated */
    TUG_ERR_NO_MPI = -4,      /* the process has no usable MPI library */
    TUG_ERR_MPI = -5,         /* the host MPI returned an error */
    TUG_ERR_SYSTEM = -6,      /* a system call failed */
    TUG_ERR_STATE = -7,       /* the call is not allowed in the present state */
    TUG_ERR_FULL = -8,        /* no room now; try again after progress */
    TUG_ERR_UNSUPPORTED = -9, /* this build or machine does not support it */
    TUG_ERR_TIMEOUT = -10,    /* the time limit has passed */
    TUG_ERR_RANGE = -11,      /* an address is outside its registration */
    TUG_ERR_KEY = -12,        /* the registration of a key has ended or never existed */
    TUG_ERR_PEER = -13,       /* another process, or the connection to it, is lost */
    TUG_ERR_DEVICE = -14,     /* a network device failed */
};

/* Returns the version as "MAJOR.MINOR.PATCH". The string is constant and belongs to the library. */
TUG_API const char *tug_version(void);

/* Returns a short sentence for 0 or a TUG_ERR_* code, and a fixed sentence for any other number.
 * Never returns NULL. The string is constant and belongs to the library. */
TUG_API const char *tug_strerror(int error);

#ifdef __cplusplus
}
#endif

#endif
