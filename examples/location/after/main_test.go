package main

import (
	"testing"

	"github.com/go-transparency/transparency/examples/internal/labtest"
)

func TestMain(m *testing.M) { labtest.Main(m, run) }

func Example() {
	labtest.Example(run)
	// Output:
	// Redis: none is configured (REDIS_URL, REDIS_HOST), so one runs inside this process and ends with it.
	// The environment says where the services are.
	//   Ada likes tea and trains
	// product-service has stopped.
	//   Ada; what she likes is not known at the moment
	// A name that nobody gave: location: resolve "order-service": unknown service: ORDER_SERVICE_URL is not set
	// A registry in Redis says where the services are; the client is the same.
	// product-service was never started: location: watch "product-service": unknown service
	// An instance has come, a process of its own.
	//   Ada likes tea and trains
	// It has gone.
	//   Ada; what she likes is not known at the moment
}
