package doctor

import "context"

// persistence says what the server still knows after a restart.
func persistence(_ context.Context, r *report, s *server) {
	aof, known := s.info["aof_enabled"]
	if !known {
		return
	}
	if s.configErr != nil {
		fix := ""
		if isNoPerm(s.configErr) {
			fix = s.allow("+config|get")
		}
		r.unseen("settings", s.configErr, "appendfsync, save and min-replicas-to-write", fix)
	}
	fsync, save := s.config["appendfsync"], s.config["save"]
	const forgets = "a restart forgets locks that are held, and others get them"
	switch {
	case aof == "1" && fsync == "always":
		r.ok("persistence", "appendonly yes, appendfsync always")
	case aof == "1" && fsync == "":
		r.ok("persistence", "appendonly yes")
	case aof == "1":
		r.add(Note, "persistence", "appendonly yes, appendfsync "+fsync,
			"a crash forgets the grants of the last second or so, and others get these locks",
			"CONFIG SET appendfsync always")
	case s.options.WaitFsync:
		r.add(Failure, "persistence", "appendonly no", "wait_fsync waits for a file that is not written: no lock is granted", "CONFIG SET appendonly yes")
	case save != "":
		r.add(Warning, "persistence", "appendonly no, save "+save, "a crash forgets the locks granted since the last snapshot, and others get them", "CONFIG SET appendonly yes")
	default:
		r.add(Warning, "persistence", "appendonly no, no snapshots", forgets, "CONFIG SET appendonly yes")
	}
}

// saving says whether the server gets its data onto its disk.
func saving(_ context.Context, r *report, s *server) {
	aof, snapshot := s.info["aof_last_write_status"], s.info["rdb_last_bgsave_status"]
	switch {
	case aof == "" && snapshot == "":
		return
	case s.info["aof_enabled"] == "1" && aof != "ok":
		r.add(Failure, "disk", "the last write to the append-only file failed", "the server refuses new locks (MISCONF), or forgets them when it restarts",
			"free space on the server's disk; its log has the reason")
	case snapshot == "ok":
		r.ok("disk", "the last writes to the disk succeeded")
	case s.config["stop-writes-on-bgsave-error"] == "no":
		r.add(Warning, "disk", "the last snapshot failed", "what is written to the disk grows old",
			"free space on the server's disk, then BGSAVE; its log has the reason")
	default:
		r.add(Failure, "disk", "the last snapshot failed", "the server refuses new locks (MISCONF)",
			"free space on the server's disk, then BGSAVE; its log has the reason")
	}
}
