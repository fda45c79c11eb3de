package lock_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/go-transparency/transparency"
	"github.com/go-transparency/transparency/lock"
)

// updateStock is the statement that a stockTable knows.
const updateStock = `UPDATE stock SET pieces = $1, fence = $2 WHERE id = $3 AND fence <= $2`

// stockTable is a database of one table, as a driver. It counts what reaches it.
type stockTable struct {
	mu   sync.Mutex
	rows map[int64]stockRow
	sent int
}

type stockRow struct{ pieces, fence int64 }

func (d *stockTable) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d *stockTable) Driver() driver.Driver                        { return nil }
func (d *stockTable) Prepare(string) (driver.Stmt, error)          { return nil, errors.New("not needed") }
func (d *stockTable) Begin() (driver.Tx, error)                    { return nil, errors.New("not needed") }
func (d *stockTable) Close() error                                 { return nil }

func (d *stockTable) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent++
	if query != updateStock || len(args) != 3 {
		return nil, errors.New("not understood")
	}
	pieces, fence, id := args[0].Value.(int64), args[1].Value.(int64), args[2].Value.(int64)
	if r, ok := d.rows[id]; !ok || r.fence > fence {
		return driver.RowsAffected(0), nil
	}
	d.rows[id] = stockRow{pieces, fence}
	return driver.RowsAffected(1), nil
}

func newStockTable() *stockTable { return &stockTable{rows: map[int64]stockRow{7: {}}} }

// openStock is for examples.
func openStock() *sql.DB { return sql.OpenDB(newStockTable()) }

func TestCheckFenced(t *testing.T) {
	d := newStockTable()
	db := sql.OpenDB(d)
	defer db.Close()
	write := func(id int, pieces int, fence uint64) error {
		return lock.CheckFenced(db.ExecContext(t.Context(), updateStock, pieces, lock.SQLFence(fence), id))
	}
	for _, c := range []struct {
		fence uint64
		want  error
	}{
		{8, nil},
		{8, nil},
		{7, lock.ErrStaleFence},
		{1_700_000_000_000_000, nil},
		{1<<53 + 1, nil},
		{1 << 53, lock.ErrStaleFence},
		{math.MaxInt64, nil},
	} {
		before := d.rows[7]
		err := write(7, int(before.pieces)+1, c.fence)
		if !errors.Is(err, c.want) {
			t.Errorf("fence %d after %d = %v, want %v", c.fence, before.fence, err, c.want)
		}
		if c.want != nil && d.rows[7] != before {
			t.Errorf("fence %d after %d was refused and wrote %v", c.fence, before.fence, d.rows[7])
		}
	}
	wantErr(t, "no such row", write(8, 1, math.MaxInt64), lock.ErrStaleFence)
	sent := d.sent
	wantErr(t, "a fence beyond int64", write(7, 1, math.MaxInt64+1), transparency.ErrInvalid)
	wantErr(t, "no fence", write(7, 1, 0), transparency.ErrInvalid)
	if d.sent != sent {
		t.Errorf("a fence that cannot be reached the database")
	}
}

type sqlResult struct {
	rows int64
	err  error
}

func (r sqlResult) LastInsertId() (int64, error) { return 0, errors.New("none") }
func (r sqlResult) RowsAffected() (int64, error) { return r.rows, r.err }

func TestCheckFencedResults(t *testing.T) {
	mine := errors.New("mine")
	if err := lock.CheckFenced(sqlResult{rows: 1}, mine); err != mine {
		t.Errorf("CheckFenced of an error = %v, want that very error", err)
	}
	if err := lock.CheckFenced(sqlResult{rows: 2}, nil); err != nil {
		t.Errorf("CheckFenced of two rows = %v, want nil", err)
	}
	wantErr(t, "no row", lock.CheckFenced(sqlResult{}, nil), lock.ErrStaleFence)
	wantErr(t, "not supported", lock.CheckFenced(sqlResult{err: mine}, nil), transparency.ErrUncertain, mine)
	wantErr(t, "not known", lock.CheckFenced(sqlResult{rows: -1}, nil), transparency.ErrUncertain)
	wantErr(t, "no result", lock.CheckFenced(nil, nil), transparency.ErrInvalid)
}
