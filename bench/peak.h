/*
 * peak.h - the most fused multiply-adds this machine does, measured in the run that needs it.
 */
#ifndef WGB_PEAK_H
#define WGB_PEAK_H

/* GFLOP/s of `threads` threads at once, best of `tries`; 0 where the instruction set is not. */
double wgb_peak_avx2(int threads, int tries);
double wgb_peak_avx512(int threads, int tries);

/* The higher of the two, or, on other processors, 0. */
double wgb_peak(int threads, int tries);

double wgb_seconds(void); /* monotonic */

#endif
