package lock

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/go-transparency/transparency"
)

// SQLFence is a fence as an argument of a statement: a signed 64-bit integer,
// which a column of type BIGINT holds. database/sql knows no other, so a fence
// above 2^63-1 is an error before anything is sent, wrapping
// [transparency.ErrInvalid], as is that of zero, which no lease has. The
// fences of this package's drivers are microseconds since 1970, and reach that
// in the year 294247.
type SQLFence uint64

// Value implements [driver.Valuer].
func (f SQLFence) Value() (driver.Value, error) {
	if f > math.MaxInt64 {
		return nil, refused("", invalid("the fence %d is greater than a signed 64-bit integer", uint64(f)))
	}
	if err := checkFence("", uint64(f)); err != nil {
		return nil, err
	}
	return int64(f), nil
}

// CheckFenced tells whether a statement was accepted that has the condition of
// a guard. The row is the resource, and remembers the greatest fence that it
// has seen in a column of its own:
//
//	ALTER TABLE stock ADD COLUMN fence BIGINT NOT NULL DEFAULT 0
//
// Every statement that writes the row sets it, and asks for it:
//
//	err := lock.CheckFenced(db.ExecContext(ctx,
//		`UPDATE stock SET pieces = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
//		pieces, lock.SQLFence(fence), id))
//
// The condition and the write are one statement, and so nothing comes between
// them, at every isolation level. NOT NULL matters, for NULL is less than no
// fence. Where the row may be missing, an INSERT with ON CONFLICT (id) DO
// UPDATE SET … WHERE stock.fence <= EXCLUDED.fence does the same. Who has a new
// lease and begins by reading should first set the fence alone, with the same
// condition: the holder before can then not write any more.
//
// CheckFenced returns err if there is one. When no row was affected it returns
// an error wrapping [ErrStaleFence]: the row has a greater fence, or is not
// there. Several rows are several resources, and it cannot tell that some were
// refused; write to them one by one, or check the number. When the driver
// cannot tell how many rows were affected, the error wraps
// [transparency.ErrUncertain].
//
// With MySQL, clientFoundRows must be set in the data source name. Without it a
// row that is written with what it has counts as not affected.
func CheckFenced(result sql.Result, err error) error {
	if err != nil {
		return err
	}
	if result == nil {
		return refused("", invalid("there is no result"))
	}
	rows, err := result.RowsAffected()
	switch {
	case err != nil:
		return refused("", fmt.Errorf("%w: the rows affected are not known: %w", transparency.ErrUncertain, err))
	case rows < 0: // some drivers say so when they do not know
		return refused("", fmt.Errorf("%w: the rows affected are not known", transparency.ErrUncertain))
	case rows == 0:
		return refused("", fmt.Errorf("%w: no row with this fence or a smaller one", ErrStaleFence))
	}
	return nil
}
