/* The host MPI: the library underneath, found at run time.
 *
 * Tugboat links no MPI. On the first MPI call of the process it looks for the functions it needs in
 * the objects loaded behind it (or, where the program opened MPI with RTLD_LOCAL, in any loaded
 * object), and from then on calls them by pointer. tug_host.X is the host's PMPI_X, never one of
 * ours, never a tool's: the engine's own traffic stays out of sight of profiling tools.
 *
 * A process that makes no MPI call never comes here: under a launcher or a shell that inherits
 * LD_PRELOAD the library does nothing.
 */
#ifndef TUG_HOST_HOST_H
#define TUG_HOST_HOST_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* What Tugboat calls itself, beside the calls it stands in front of. */
#define TUG_HOST_FUNCTIONS(X)                                                                      \
    X(Cart_shift)                                                                                  \
    X(Cartdim_get)                                                                                 \
    X(Comm_call_errhandler)                                                                        \
    X(Comm_compare)                                                                                \
    X(Comm_create_group)                                                                           \
    X(Comm_create_keyval)                                                                          \
    X(Comm_group)                                                                                  \
    X(Comm_get_attr)                                                                               \
    X(Comm_get_errhandler)                                                                         \
    X(Comm_rank)                                                                                   \
    X(Comm_remote_group)                                                                           \
    X(Comm_set_errhandler)                                                                         \
    X(Comm_size)                                                                                   \
    X(Comm_test_inter)                                                                             \
    X(Dist_graph_neighbors)                                                                        \
    X(Dist_graph_neighbors_count)                                                                  \
    X(Errhandler_free)                                                                             \
    X(Error_string)                                                                                \
    X(Get_count)                                                                                   \
    X(Get_count_c)                                                                                 \
    X(Graph_neighbors)                                                                             \
    X(Graph_neighbors_count)                                                                       \
    X(Grequest_complete)                                                                           \
    X(Grequest_start)                                                                              \
    X(Group_free)                                                                                  \
    X(Group_incl)                                                                                  \
    X(Group_size)                                                                                  \
    X(Group_translate_ranks)                                                                       \
    X(Info_create)                                                                                 \
    X(Info_dup)                                                                                    \
    X(Info_free)                                                                                   \
    X(Info_get)                                                                                    \
    X(Info_get_nkeys)                                                                              \
    X(Info_get_nthkey)                                                                             \
    X(Info_set)                                                                                    \
    X(Imrecv)                                                                                      \
    X(Imrecv_c)                                                                                    \
    X(Irecv)                                                                                       \
    X(Irecv_c)                                                                                     \
    X(Op_commutative)                                                                              \
    X(Pack_c)                                                                                      \
    X(Pack_size_c)                                                                                 \
    X(Reduce_local_c)                                                                              \
    X(Recv_init_c)                                                                                 \
    X(T_category_get_info)                                                                         \
    X(Status_set_elements_x)                                                                       \
    X(Topo_test)                                                                                   \
    X(Type_commit)                                                                                 \
    X(Type_contiguous)                                                                             \
    X(Type_create_hindexed_block)                                                                  \
    X(Type_create_keyval)                                                                          \
    X(Type_free_keyval)                                                                            \
    X(Type_get_attr)                                                                               \
    X(Type_get_contents_c)                                                                         \
    X(Type_get_envelope_c)                                                                         \
    X(Type_get_extent_c)                                                                           \
    X(Type_get_true_extent_c)                                                                      \
    X(Type_set_attr)                                                                               \
    X(Type_size_c)                                                                                 \
    X(Unpack_c)

/* What Tugboat calls besides, by kind of host: where handles are not integers or the host is below
 * MPI 4, or where neither holds. */
#ifdef OPEN_MPI
#define TUG_HOST_FUNCTIONS_MORE(X)                                                                 \
    X(Comm_f2c)                                                                                    \
    X(Get_elements_x)                                                                              \
    X(Info_f2c)                                                                                    \
    X(Op_f2c)                                                                                      \
    X(Pack)                                                                                        \
    X(Pack_size)                                                                                   \
    X(Recv_init)                                                                                   \
    X(Reduce_local)                                                                                \
    X(Request_c2f)                                                                                 \
    X(Send_init)                                                                                   \
    X(Type_create_struct)                                                                          \
    X(Type_f2c)                                                                                    \
    X(Type_get_contents)                                                                           \
    X(Type_get_envelope)                                                                           \
    X(Type_size)                                                                                   \
    X(Unpack)                                                                                      \
    X(Win_f2c)
#else
#define TUG_HOST_FUNCTIONS_MORE(X) X(Type_create_struct_c)
#endif

/* Some are deprecated since MPI 4, whose headers say so (MPICH 5.0, Open MPI 6.0); what replaces
 * them is not in every host. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
struct tug_host {
#define TUG_BEGINNING(...) (__VA_ARGS__, MPI_Request * request) /* of the nonblocking twin */
#define TUG_CALL(Name, parameters, arguments) int(*Name) parameters;
#define TUG_CALL_COLLECTIVE(Name, Twin, parameters, arguments)                                     \
    int(*Name) parameters;                                                                         \
    int(*Twin) TUG_BEGINNING parameters;
#define TUG_CALL_REDUCTION(Name, Twin, parameters, arguments) int(*Name) parameters;
#include "host/calls.def"
#define TUG_HOST_POINTER(Name) __typeof__(PMPI_##Name) *Name;
    TUG_HOST_FUNCTIONS(TUG_HOST_POINTER)
    TUG_HOST_FUNCTIONS_MORE(TUG_HOST_POINTER)
#undef TUG_HOST_POINTER
#undef TUG_BEGINNING
};
#pragma GCC diagnostic pop

extern struct tug_host tug_host;

/* Finds the host MPI, once. False (and one error line) when there is none. Any thread. */
bool tug_host_resolve(void);

/* True when the host is of the binary interface that this library is built for and has every
 * function of both lists, or a stand-in for it: without, everything passes through. */
bool tug_host_complete(void);

/* What the host is: complete and of the interface that this library is built for, or another. */
enum tug_host_family { TUG_FAMILY_NONE, TUG_FAMILY_BUILT_FOR, TUG_FAMILY_OTHER };
enum tug_host_family tug_host_family(void);

/* What the host calls itself, see identity.h. */
const char *tug_host_name(void);

/* The first call that a host of our interface lacks, without MPI_. NULL: none, or of another. */
const char *tug_host_lacks(void);

/* What this library is built for. */
#ifdef OPEN_MPI
#define TUG_HOST_BUILT_FOR "Open MPI"
#define TUG_HOST_BUILT_FOR_VERSION TUG_HOST_BUILT_FOR " 4.1 or 5.0"
#else
#define TUG_HOST_BUILT_FOR "MPICH"
#define TUG_HOST_BUILT_FOR_VERSION TUG_HOST_BUILT_FOR " 4"
#endif

/* Opens the library of the host that this one is built for; scope: RTLD_LOCAL or RTLD_GLOBAL. NULL:
 * there is none on this machine. */
void *tug_host_open(int scope);

/* The host's function of a name that is in neither list, or NULL. */
void *tug_host_find(const char *name);

/* The same, looked for until it is found; *kept is NULL at first. Any thread. */
void *tug_host_find_once(const char *name, void *_Atomic *kept);

/* What a function of the host's that answers yes or no says; no if it is not there. */
bool tug_host_says(const char *name);

/* True for NULL and for addresses inside Tugboat's own object. */
bool tug_host_is_ours(const void *address);

#endif
