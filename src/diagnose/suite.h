/* suite.h - tell from the summary of a test runner whether its tests passed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SUITE_H
#define DIAGNOSE_SUITE_H

enum suite {
	SUITE_NONE,
	SUITE_CASE,   /* one test that failed: "FAILED tests/test_x.py::test_y - ..." */
	SUITE_FAILED, /* the summary: "1 failed, 60 passed in 3.20s" */
	SUITE_PASSED, /* the summary: "61 passed in 3.20s" */
	SUITE_OK,     /* unittest's "OK", which counts below SUITE_RAN */
	SUITE_BEGINS, /* "=== test session starts ===" */
	SUITE_RAN     /* unittest's "Ran 61 tests in 3.2s" */
};

/* suite_read - what the line says, of pytest, unittest, ctest, Google Test, Go, Cargo, Jest,
 * Bats, automake and TAP. */
enum suite suite_read(const char *line, const char *end);

/* suite_tests - how many tests the summary counts, or 0. */
long suite_tests(const char *line, const char *end);

#endif
