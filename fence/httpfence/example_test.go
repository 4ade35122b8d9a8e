package httpfence_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfastlock/holdfast/fence"
	"github.com/holdfastlock/holdfast/fence/httpfence"
)

// The server refuses a holder whose lock another has meanwhile.
func Example() {
	var guard fence.Memory // for a server whose data is in memory, too
	server := httptest.NewServer(httpfence.Require(&guard, httpfence.Path,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "written") })))
	defer server.Close()

	put := func(owner string, shown int64) {
		req, _ := http.NewRequest(http.MethodPut, server.URL+"/report", strings.NewReader("new text"))
		resp, err := httpfence.Do(server.Client(), req, owner, shown)
		if err != nil {
			fmt.Println(owner, "was refused:", err)
			return
		}
		resp.Body.Close()
		fmt.Println(owner, "got", resp.Status)
	}
	put("web-2/4712", 42)
	put("web-1/4711", 41)
	// Output:
	// web-2/4712 got 200 OK
	// web-1/4711 was refused: fence 41 is stale: resource "/report" has seen 42
}
