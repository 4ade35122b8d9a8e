// Package once runs a job once per slot, on whichever of many hosts comes first:
// once per night, and not "about once".
//
// A lock alone does not do that. A short job ends, a host whose clock is slow
// arrives, finds the lock free, and runs the job again. So the store keeps a
// record of each slot, which is begun and finished by the holder of an ordinary
// lock on the job's name: running, then done. Done is final.
//
// # What it promises
//
// As long as the store keeps its data, a slot is done by one run at the most,
// and no two runs of a job, whatever their slots, are trusted at the same moment.
// A run whose host crashed, or that lost its lease, is not done: the next that
// asks for the slot takes it over with the next attempt and a larger fence, at
// once if it stands by (StandBy). A run that was cut off can't mark its slot
// done. A slot is judged by the store's clock; those of the hosts may be wrong.
//
// # What it does not promise
//
// A job that crashed has begun, and the next attempt begins again: its effects
// should bear that, or be refused by the fence, or else AtMostOnce leaves the
// slot lost. Without anybody standing by, or coming later, nobody finishes a
// crashed run. A store that loses its data has forgotten what was done.
package once
