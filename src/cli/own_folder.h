/* Where this program is: others are looked for beside it. */
#ifndef CA_OWN_FOLDER_H
#define CA_OWN_FOLDER_H

enum { CA_OWN_FOLDER_BYTES = 1024 };

/* The folder of this program with a slash at its end; "" where the system does not tell. */
void ca_own_folder(char folder[CA_OWN_FOLDER_BYTES]);

#endif
