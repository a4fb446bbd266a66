/* The header that the original ACP's own sample programs include in place of <acp.h>, or beside it.
 * What they use of it is the basic layer, which is <acp.h>. The rest of the original's header is
 * between it and the libraries above the basic layer (iacp_*), and is not here. */
#ifndef __ACPBL_H__ /* the guard of the original header */
#define __ACPBL_H__

#include "acp.h"
#include "acpbl_sync.h"

#endif
