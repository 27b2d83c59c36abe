/* base/machine.h - what the system can tell of this machine */
#ifndef SL_BASE_MACHINE_H
#define SL_BASE_MACHINE_H

#include "base/base.h"

/* Bytes that could be allocated without swapping; 0 when unknown. */
uint64_t sl_machine_free_bytes(void);

/* 64 random bits from the system. */
uint64_t sl_machine_random(void);

#endif
