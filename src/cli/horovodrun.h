/* horovodrun.h - Horovod's launcher: the program `ringup` under another name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_HOROVODRUN_H
#define CLI_HOROVODRUN_H

/* horovodrun_main - parse and run the command line; returns the exit status. */
int horovodrun_main(int argc, char **argv);

#endif
