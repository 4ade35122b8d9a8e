module github.com/holdfastlock/holdfast/bench

go 1.26.8

require (
	github.com/holdfastlock/holdfast v0.0.0
	github.com/redis/rueidis v1.0.79
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.50.0 // indirect

replace github.com/holdfastlock/holdfast => ../
