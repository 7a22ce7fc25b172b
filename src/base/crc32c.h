/* base/crc32c.h - CRC-32C (Castagnoli, reflected 0x82F63B78), as Kafka's batches and our own
 * formats use it. Hardware instruction where the CPU has it. Threads: any. */
#pragma once
#include "base/span.h"

/* The checksum of `s` continued from `crc` (0 to start). */
uint32_t ls_crc32c(uint32_t crc, ls_span s);
