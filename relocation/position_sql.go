package relocation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/go-transparency/transparency"
)

// SQLPositionOptions are options of an [SQLPosition]. Nil is fine.
type SQLPositionOptions struct {
	// Table is the table of the positions, perhaps with its schema before it.
	// Empty means "relocation_position".
	Table string
	// Placeholder is how the driver marks arguments: "$" for $1, $2, …, "@p"
	// for @p1, @p2, …, "?" for question marks. Empty means "$", as PostgreSQL
	// and SQLite have it.
	Placeholder string
}

// An SQLPosition keeps, in a database of the handler's own, up to which message
// each session has had its effect there. With it a handler of a Hub in the mode
// [Atomic] has every effect exactly once: effect and number are one
// transaction.
//
//	position := relocation.NewSQLPosition(db, nil)
//	hub := relocation.NewHub(store, func(ctx context.Context, s *relocation.Session, m relocation.Message) error {
//		return position.Do(ctx, s, m.Seq, func(tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, …)
//			return err
//		})
//	}, &relocation.HubOptions{Mode: relocation.Atomic, Position: position.Position})
//
// The table is
//
//	CREATE TABLE relocation_position (
//		session    VARCHAR(255) PRIMARY KEY,
//		generation BIGINT NOT NULL,
//		seq        BIGINT NOT NULL,
//		changed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
//	)
//
// Rows stay. Delete those that have not changed for longer than a session can
// be without a message: one that goes on after that ends with
// [ErrStateRegressed].
//
// It is safe for concurrent use, and does not close the database.
type SQLPosition struct {
	db  *sql.DB
	err error // why no operation can work

	read, advance, insert string // statements
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// NewSQLPosition returns the positions in db. It does no I/O. opts may be nil.
func NewSQLPosition(db *sql.DB, opts *SQLPositionOptions) *SQLPosition {
	var o SQLPositionOptions
	if opts != nil {
		o = *opts
	}
	if o.Table == "" {
		o.Table = "relocation_position"
	}
	if o.Placeholder == "" {
		o.Placeholder = "$"
	}
	p := &SQLPosition{db: db}
	switch {
	case db == nil:
		p.err = invalid("the database is nil")
	case !tableName.MatchString(o.Table):
		p.err = invalid("the table's name is %q", o.Table)
	case o.Placeholder != "$" && o.Placeholder != "@p" && o.Placeholder != "?":
		p.err = invalid("the placeholder is %q", o.Placeholder)
	}
	arg := func(n int) string {
		if o.Placeholder == "?" {
			return "?"
		}
		return o.Placeholder + strconv.Itoa(n)
	}
	p.read = "SELECT generation, seq FROM " + o.Table + " WHERE session = " + arg(1)
	p.advance = "UPDATE " + o.Table + " SET generation = " + arg(1) + ", seq = " + arg(2) + ", changed_at = CURRENT_TIMESTAMP" +
		" WHERE session = " + arg(3) + " AND seq = " + arg(4) + " AND generation <= " + arg(5)
	p.insert = "INSERT INTO " + o.Table + " (session, generation, seq) VALUES (" + arg(1) + ", " + arg(2) + ", " + arg(3) + ")"
	return p
}

func (p *SQLPosition) unusable() error {
	if p == nil || p.db == nil && p.err == nil {
		return invalid("the SQLPosition is not from NewSQLPosition")
	}
	return p.err
}

// Position returns up to which message a session has had its effect, which is
// zero for one that is unknown. It is for HubOptions.Position.
func (p *SQLPosition) Position(ctx context.Context, session string) (uint64, error) {
	if err := p.unusable(); err != nil {
		return 0, positionFailed(err)
	}
	_, seq, err := p.at(ctx, p.db, session)
	if err != nil {
		return 0, positionFailed(err)
	}
	return seq, nil
}

type sqlQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// at returns what is there, or zeros.
func (p *SQLPosition) at(ctx context.Context, q sqlQuerier, session string) (generation, seq uint64, err error) {
	var g, n int64
	switch err := q.QueryRowContext(ctx, p.read, session).Scan(&g, &n); {
	case errors.Is(err, sql.ErrNoRows):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case g < 1 || n < 1:
		return 0, 0, invalid("the database has generation %d and number %d", g, n)
	}
	return uint64(g), uint64(n), nil
}

// Advance notes, in tx, that message seq of a session has its effect there. It
// is for the beginning of the transaction: whatever its error, roll back, and
// return it from the handler.
//
// The error is [ErrDuplicate] when the message had its effect before, which a
// Hub takes for success; [ErrFenced] when a later owner has had an effect,
// after which this one's session is over; [ErrStateRegressed] when the message
// before has had none, because the database lost it; or that of the database.
func (p *SQLPosition) Advance(ctx context.Context, tx *sql.Tx, o Ownership, seq uint64) error {
	err := p.unusable()
	if err == nil && tx == nil {
		err = invalid("the transaction is nil")
	}
	if err == nil {
		err = checkAdvance(o, seq)
	}
	if err == nil {
		err = p.advanceIn(ctx, tx, o, seq)
	}
	if err != nil {
		return positionFailed(err)
	}
	return nil
}

func (p *SQLPosition) advanceIn(ctx context.Context, tx *sql.Tx, o Ownership, seq uint64) error {
	g, n := int64(o.Generation()), int64(seq) //nolint:gosec // checked
	if seq > 1 {
		result, err := tx.ExecContext(ctx, p.advance, g, n, o.ID(), n-1, g)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n > 0 {
			return err
		}
	}
	generation, at, err := p.at(ctx, tx, o.ID())
	switch {
	case err != nil:
		return err
	case at == 0 && seq == 1:
		if _, err := tx.ExecContext(ctx, p.insert, o.ID(), g, n); err != nil {
			return &quietError{"another transaction has the session's first message, or the row is refused", err}
		}
		return nil
	case generation <= o.Generation() && at > 0 && at == seq-1:
		return fmt.Errorf("%w: the position changed meanwhile", transparency.ErrUnavailable)
	}
	return positionRefusal(o, seq, generation, at)
}

// A quietError is a driver's error whose text may quote the session.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.err }

// Do runs fn in a transaction with [SQLPosition.Advance] at its beginning, and
// commits it. After an error of Advance, fn is not called, and after any error,
// or when fn panics, nothing has happened, but for an error of the commit:
// that wraps ErrUncertain of the root package. Return the error from the
// handler: the message comes again, and is a duplicate if it was done.
func (p *SQLPosition) Do(ctx context.Context, o Ownership, seq uint64, fn func(tx *sql.Tx) error) error {
	if err := p.unusable(); err != nil {
		return positionFailed(err)
	}
	if fn == nil {
		return positionFailed(invalid("there is no function to call"))
	}
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return positionFailed(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is over already, or is to be as if it had not been
	if err := p.Advance(ctx, tx, o, seq); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return positionFailed(fmt.Errorf("%w: commit: %w", transparency.ErrUncertain, err))
	}
	return nil
}

// String leaves the database out.
func (p *SQLPosition) String() string { return "relocation.SQLPosition" }

// Format is String for every verb.
func (p *SQLPosition) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }
