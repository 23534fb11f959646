/* entry.h -- what an image of mychip has: a shared object that exports a mychip_entry for each kernel, under the name
 * mychip_entry_NAME. The compiler's headers make the entries, and the chip runs them. */
#ifndef ENTRY_H
#define ENTRY_H

typedef struct mychip_index {
  unsigned x, y, z;
} mychip_index;

/* What the threads of a block share. */
typedef struct mychip_block {
  mychip_index index, size, grid;
  int status;          /* the first failure's number, one of TB_* in tb/driver.h, or 0 */
  const char *failure; /* its text */
} mychip_block;

/* One thread of a block. */
typedef struct mychip_lane {
  mychip_index index;
  mychip_block *block;
  void (*barrier)(void); /* returns when all threads of the block have called it */
} mychip_lane;

/* The threads of a block run on one thread of the chip, which has the shared arrays and this. */
typedef struct mychip_entry {
  unsigned threads;  /* the most that a block may have */
  unsigned barriers; /* 1: its threads wait for each other */
  void (*run)(const mychip_lane *lane, const void *const *arguments);
} mychip_entry;

#endif
