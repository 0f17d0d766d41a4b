/* xml.h - escape untrusted text for XML and HTML. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_XML_H
#define BASE_XML_H

#include <stdio.h>

/*
 * xml_text - write @s so that it reads as text, in an element or in quotes.
 *
 * Characters that XML forbids, and bytes that are not UTF-8, become '?'.
 */
void xml_text(FILE *out, const char *s);

/* xml_clip - the same, but at most @most characters, the last an ellipsis if it is cut. */
void xml_clip(FILE *out, const char *s, int most);

#endif
