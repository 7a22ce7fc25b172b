/* formats/batch/batch_test.h - the groups of the batch test program. */
#pragma once

int golden_tests(void);
