package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/location"
)

const likes = "tea and trains"

// page is the client. It holds names, and no address.
func page(ctx context.Context, l location.Locator) (string, error) {
	user, err := get(ctx, l, "user-service", "users/42")
	if err != nil {
		return "", err
	}
	what, err := get(ctx, l, "product-service", "likes/42")
	if errors.Is(err, errNoAnswer) || errors.Is(err, location.ErrNoInstances) {
		// Less of a page is better than none. An unknown name would be a mistake
		// of ours, and is not hidden.
		return user + "; what she likes is not known at the moment", nil
	}
	return user + " likes " + what, err
}

var errNoAnswer = errors.New("does not answer")

func get(ctx context.Context, l location.Locator, service, path string) (string, error) {
	url, err := location.URL(ctx, l, service)
	if err != nil {
		return "", err
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodGet, url.JoinPath(path).String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fmt.Errorf("%s %w at %s", service, errNoAnswer, url)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s %w as it should at %s", service, errNoAnswer, url)
	}
	return string(text), nil
}

// advise says what to check.
func advise(err error) error {
	switch {
	case errors.Is(err, errNoAnswer):
		return fmt.Errorf("%w: check that it runs there", err)
	case errors.Is(err, location.ErrUnknownService):
		return fmt.Errorf("%w: check the name, and that an instance was started", err)
	case errors.Is(err, location.ErrNoInstances), errors.Is(err, transparency.ErrInvalid):
		return fmt.Errorf("%w: check USER_SERVICE_URL and PRODUCT_SERVICE_URL", err)
	case errors.Is(err, transparency.ErrUnavailable), errors.Is(err, transparency.ErrUncertain):
		return fmt.Errorf("%w: check that the registry's Redis runs", err)
	case errors.Is(err, transparency.ErrDenied):
		return fmt.Errorf("%w: check the permissions of REDIS_USERNAME", err)
	}
	return err
}
