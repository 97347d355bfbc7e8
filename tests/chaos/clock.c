/* The machine's clock, shifted by what a file says: preloaded into a server, it sees a clock that somebody sets. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static long shift_seconds(void) {
  static volatile long *shown;
  if (!shown) {
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    static volatile long none;
    shown = found == MAP_FAILED ? &none : found;
  }
  return *shown;
}

int clock_gettime(clockid_t id, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(id, now);
  if (!failed && id == CLOCK_REALTIME) now->tv_sec += shift_seconds();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
  int failed = real(now, zone);
  if (!failed) now->tv_sec += shift_seconds();
  return failed;
}

time_t time(time_t *also) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (also) *also = now.tv_sec;
  return now.tv_sec;
}
