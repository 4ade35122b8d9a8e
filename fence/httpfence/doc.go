// Package httpfence carries fences over HTTP, and lets a server refuse the
// requests of stale lock holders. It is for net/http.
//
// The holder sends its fence with every request, the first one before it reads
// what it is going to change:
//
//	resp, err := httpfence.Do(client, req, owner, lease.Fence())
//	// *fence.StaleError: a later holder was here
//
// The server names the resource of a request, and lets a fence.Guard decide:
//
//	guard := sqlfence.NewGuard(db, sqlfence.Postgres) // or filefence, or a *fence.Memory
//	http.Handle("/reports/", httpfence.Require(guard, httpfence.Path, reports))
//
// The Guard must not forget what it has seen as long as the resource exists. A
// handler whose change is in a database does better without Require: it takes
// the fence by FromRequest, shows it by sqlfence or pgxfence in its own
// transaction, and answers by Refuse.
//
// # On the wire
//
//	Holdfast-Fence: 1795970311248160
//	Holdfast-Owner: web-1/4781
//
// The fence is a decimal number above 0. The owner says who holds the lease; bytes
// that are not visible ASCII, and '%', are written as %XX. The name of the
// resource is not sent: the server knows what a request is about. Answers:
//
//	412 Precondition Failed     a larger fence was seen
//	409 Conflict                another owner has shown the same fence
//	428 Precondition Required   there is no fence
//	400 Bad Request             fence or owner can't be read, or is there twice
//	503 Service Unavailable     the Guard can't tell
//
// Their bodies are problems in JSON (RFC 9457). The first two have a type of
// their own, which tells them from other answers with these codes, and resource,
// fence, and newest, or owner and first_owner. A client that does not use this
// package must stop at 412 and 409: its lease was lost.
package httpfence
