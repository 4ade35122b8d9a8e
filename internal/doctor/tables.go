package doctor

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfastlock/holdfast/pgstore"
)

// created finds what the schema makes.
var created = regexp.MustCompile(`CREATE (TABLE|UNIQUE INDEX|INDEX) IF NOT EXISTS (\w+)`)

// columns are those that the store uses.
var columns = map[string]string{
	"holdfast_lease": "name, token, fence, fenced, since, expires_at, purpose, withdrawn",
	"holdfast_slot":  "job, slot, phase, token, fence, attempt, began, ended, code, note, keep",
}

const applySchema = "holdfast schema apply"

// tables says whether the tables are there, and complete.
func tables(ctx context.Context, r *report, db *database) {
	var missing []string
	for _, match := range created.FindAllStringSubmatch(pgstore.Schema(), -1) {
		var there bool
		if err := db.get(ctx, &there, "SELECT to_regclass($1) IS NOT NULL", match[2]); err != nil {
			return
		}
		if !there {
			missing = append(missing, match[2])
		}
	}
	const why = "locks live in these tables, and what keeps two from holding one is in their keys"
	if len(missing) > 0 {
		r.add(Failure, "tables", "missing: "+strings.Join(missing, ", "), why, applySchema+", by a user who may create them; or have the search_path lead to them")
		return
	}
	for table, names := range columns {
		_, err := db.conn.Exec(ctx, "SELECT "+names+" FROM "+table+" LIMIT 0")
		if said, is := errors.AsType[*pgconn.PgError](err); is && said.Code == "42703" {
			r.add(Failure, "tables", table+": "+said.Message, why, "have the search_path lead to the tables of this version, or make them anew by "+applySchema)
			return
		}
	}
	var place string
	if db.get(ctx, &place, "SELECT nspname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE pg_class.oid = to_regclass('holdfast_lease')") == nil {
		r.ok("tables", "complete, in schema "+place)
	}
}

// privileges says what the user may not do with the tables.
func privileges(ctx context.Context, r *report, db *database) {
	lacking := make(map[string][]string) // tables by right
	for _, table := range []string{"holdfast_lease", "holdfast_slot"} {
		for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			var may *bool // null without the table
			if err := db.get(ctx, &may, "SELECT has_table_privilege(to_regclass($1), $2)", table, right); err != nil || may == nil {
				return
			}
			if !*may {
				lacking[table] = append(lacking[table], right)
			}
		}
	}
	if len(lacking) == 0 {
		r.ok("rights", "user "+db.user()+" may do all that is needed")
		return
	}
	var found, fix []string
	for table, rights := range lacking {
		list := strings.Join(rights, ", ")
		found = append(found, list+" on "+table)
		fix = append(fix, "GRANT "+list+" ON "+table+" TO "+db.user()+";")
	}
	slices.Sort(found)
	slices.Sort(fix)
	r.add(Failure, "rights", "user "+db.user()+" may not "+strings.Join(found, ", "), "locks are read and written by all four", strings.Join(fix, " "))
}
