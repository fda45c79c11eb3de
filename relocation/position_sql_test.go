package relocation

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/go-transparency/transparency"
)

// owns is the Ownership of a test.
type owns struct {
	id         string
	generation uint64
}

func (o owns) ID() string         { return o.id }
func (o owns) Generation() uint64 { return o.generation }

// A fakeDB is a database of one table of positions and one number, of which the
// driver knows the statements of SQLPosition and "add N". Its transactions
// hold its only lock.
type fakeDB struct {
	turn chan struct{} // holds one while a transaction runs

	mu       sync.Mutex // guards what follows
	state    fakeTable
	queries  []string
	fail     map[string]error // by the first word of a statement, or "commit"
	mistaken bool             // an update says that it affected nothing
}

type fakeTable struct {
	rows map[string][2]int64
	sum  int
}

func openFakeDB(t *testing.T) (*fakeDB, *sql.DB) {
	t.Helper()
	f := &fakeDB{turn: make(chan struct{}, 1), state: fakeTable{rows: map[string][2]int64{}}, fail: map[string]error{}}
	db := sql.OpenDB(f)
	t.Cleanup(func() { _ = db.Close() })
	return f, db
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeDBConn{db: f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

func (f *fakeDB) failure(word string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail[word]
}

// committed returns what outlasts the transactions.
func (f *fakeDB) committed() fakeTable {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

type fakeDBConn struct {
	db *fakeDB
	tx *fakeTable // of the transaction, if there is one
}

func (c *fakeDBConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *fakeDBConn) Close() error                        { return nil }
func (c *fakeDBConn) Begin() (driver.Tx, error) {
	if err := c.db.failure("begin"); err != nil {
		return nil, err
	}
	c.db.turn <- struct{}{}
	state := c.db.committed()
	c.tx = &fakeTable{rows: maps.Clone(state.rows), sum: state.sum}
	return c, nil
}

func (c *fakeDBConn) Commit() error {
	err := c.db.failure("commit")
	if err == nil {
		c.db.mu.Lock()
		c.db.state = *c.tx
		c.db.mu.Unlock()
	}
	return errors.Join(err, c.Rollback())
}

func (c *fakeDBConn) Rollback() error {
	c.tx = nil
	<-c.db.turn
	return nil
}

func (c *fakeDBConn) note(query string) (word string, err error) {
	c.db.mu.Lock()
	c.db.queries = append(c.db.queries, query)
	c.db.mu.Unlock()
	word, _, _ = strings.Cut(query, " ")
	return word, c.db.failure(word)
}

func (c *fakeDBConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	word, err := c.note(query)
	if err != nil {
		return nil, err
	}
	arg := func(i int) int64 { return args[i].Value.(int64) }
	switch word {
	case "UPDATE":
		id := args[2].Value.(string)
		row, ok := c.tx.rows[id]
		if !ok || row[1] != arg(3) || row[0] > arg(4) || c.db.mistaken {
			return driver.RowsAffected(0), nil
		}
		c.tx.rows[id] = [2]int64{arg(0), arg(1)}
	case "INSERT":
		id := args[0].Value.(string)
		if _, ok := c.tx.rows[id]; ok {
			return nil, fmt.Errorf("duplicate key %q", id)
		}
		c.tx.rows[id] = [2]int64{arg(1), arg(2)}
	case "add":
		c.tx.sum += int(arg(0))
	}
	return driver.RowsAffected(1), nil
}

func (c *fakeDBConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if _, err := c.note(query); err != nil {
		return nil, err
	}
	state := c.tx
	if state == nil {
		committed := c.db.committed()
		state = &committed
	}
	row, ok := state.rows[args[0].Value.(string)]
	return &fakeDBRows{row: row, left: ok}, nil
}

type fakeDBRows struct {
	row  [2]int64
	left bool
}

func (r *fakeDBRows) Columns() []string { return []string{"generation", "seq"} }
func (r *fakeDBRows) Close() error      { return nil }
func (r *fakeDBRows) Next(dest []driver.Value) error {
	if !r.left {
		return io.EOF
	}
	dest[0], dest[1], r.left = r.row[0], r.row[1], false
	return nil
}

// add is the effect of a message in these tests.
func add(ctx context.Context, n int) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "add it", n)
		return err
	}
}

func TestSQLPosition(t *testing.T) {
	db, sqlDB := openFakeDB(t)
	p := NewSQLPosition(sqlDB, nil)
	ctx := t.Context()
	for _, step := range []struct {
		generation, seq uint64
		want            error
		sum             int
		at              uint64
	}{
		{1, 2, ErrStateRegressed, 0, 0}, // nothing there of the first
		{1, 1, nil, 1, 1},
		{1, 1, ErrDuplicate, 1, 1},
		{1, 3, ErrStateRegressed, 1, 1},
		{1, 2, nil, 3, 2},
		{4, 1, ErrDuplicate, 3, 2},
		{4, 3, nil, 6, 3}, // another owner
		{3, 4, ErrFenced, 6, 3},
		{3, 3, ErrFenced, 6, 3},
		{4, 4, nil, 10, 4},
	} {
		err := p.Do(ctx, owns{"s", step.generation}, step.seq, add(ctx, int(step.seq)))
		if !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("Do(generation %d, seq %d) error = %v, want %v", step.generation, step.seq, err, step.want)
		}
		if at, err := p.Position(ctx, "s"); err != nil || at != step.at {
			t.Errorf("Position = %d, %v, want %d", at, err, step.at)
		}
		if sum := db.committed().sum; sum != step.sum {
			t.Errorf("after generation %d, seq %d: the sum is %d, want %d", step.generation, step.seq, sum, step.sum)
		}
	}
	if at, err := p.Position(ctx, "another"); err != nil || at != 0 {
		t.Errorf("Position of an unknown session = %d, %v, want 0", at, err)
	}
}

// RL-01, the part of the handler: whoever comes again with a message, and
// however often at once, its effect is there once.
func TestSQLPositionOnceAtOnce(t *testing.T) {
	db, sqlDB := openFakeDB(t)
	p := NewSQLPosition(sqlDB, nil)
	for seq := uint64(1); seq <= 5; seq++ {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := p.Do(t.Context(), owns{"s", 1}, seq, add(t.Context(), 1))
				if err != nil && !errors.Is(err, ErrDuplicate) {
					t.Errorf("Do error = %v, want nil or ErrDuplicate", err)
				}
			})
		}
		wg.Wait()
	}
	if sum := db.committed().sum; sum != 5 {
		t.Errorf("the sum is %d, want 5", sum)
	}
}

func TestSQLPositionFailures(t *testing.T) {
	broken := errors.New("broken")
	ctx := t.Context()
	for _, word := range []string{"begin", "UPDATE", "SELECT", "INSERT", "add", "commit"} {
		db, sqlDB := openFakeDB(t)
		p := NewSQLPosition(sqlDB, nil)
		seq := uint64(1)
		if word == "UPDATE" {
			if err := p.Do(ctx, owns{"secret", 1}, 1, add(ctx, 0)); err != nil {
				t.Fatal(err)
			}
			seq = 2
		}
		db.fail[word] = fmt.Errorf("%w", broken)
		err := p.Do(ctx, owns{"secret", 1}, seq, add(ctx, 1))
		if !errors.Is(err, broken) || errors.Is(err, transparency.ErrUncertain) != (word == "commit") {
			t.Errorf("%s fails: Do error = %v", word, err)
		}
		if sum := db.committed().sum; sum != 0 {
			t.Errorf("%s fails: the effect is there", word)
		}
		delete(db.fail, word)
		if err := p.Do(ctx, owns{"secret", 1}, seq, add(ctx, 1)); err != nil || db.committed().sum != 1 {
			t.Errorf("after %s failed: Do error = %v, sum %d", word, err, db.committed().sum)
		}
	}

	db, sqlDB := openFakeDB(t)
	p := NewSQLPosition(sqlDB, nil)
	func() {
		defer func() { _ = recover() }()
		_ = p.Do(ctx, owns{"s", 1}, 1, func(*sql.Tx) error { panic("in the handler") })
	}()
	if err := p.Do(ctx, owns{"s", 1}, 1, add(ctx, 1)); err != nil {
		t.Errorf("Do after a panic: error = %v, want nil", err)
	}
	db.mistaken = true
	if err := p.Do(ctx, owns{"s", 1}, 2, add(ctx, 1)); !errors.Is(err, transparency.ErrUnavailable) {
		t.Errorf("Do when the row changes in between: error = %v, want ErrUnavailable", err)
	}
	db.fail["INSERT"] = errors.New(`duplicate key "secret"`)
	if err := p.Do(ctx, owns{"secret", 1}, 1, add(ctx, 1)); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("Do error = %v, want one without the session", err)
	}
	db.state.rows["s"] = [2]int64{-1, 3}
	if _, err := p.Position(ctx, "s"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Position of a row that is none: error = %v, want ErrInvalid", err)
	}
}

func TestSQLPositionArguments(t *testing.T) {
	ctx := t.Context()
	db, sqlDB := openFakeDB(t)
	good := NewSQLPosition(sqlDB, nil)
	tx, err := sqlDB.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var none *SQLPosition
	for what, err := range map[string]error{
		"nil":           none.Advance(ctx, tx, owns{"s", 1}, 1),
		"zero":          new(SQLPosition).Advance(ctx, tx, owns{"s", 1}, 1),
		"nil database":  NewSQLPosition(nil, nil).Advance(ctx, tx, owns{"s", 1}, 1),
		"table":         NewSQLPosition(sqlDB, &SQLPositionOptions{Table: "a; DROP TABLE b"}).Advance(ctx, tx, owns{"s", 1}, 1),
		"placeholder":   NewSQLPosition(sqlDB, &SQLPositionOptions{Placeholder: ":"}).Advance(ctx, tx, owns{"s", 1}, 1),
		"transaction":   good.Advance(ctx, nil, owns{"s", 1}, 1),
		"session":       good.Advance(ctx, tx, nil, 1),
		"a nil Session": good.Advance(ctx, tx, (*Session)(nil), 1),
		"generation":    good.Advance(ctx, tx, owns{"s", 1 << 63}, 1),
		"number":        good.Advance(ctx, tx, owns{"s", 1}, 0),
		"large number":  good.Advance(ctx, tx, owns{"s", 1}, 1<<63),
		"function":      good.Do(ctx, owns{"s", 1}, 1, nil),
		"nil Do":        none.Do(ctx, owns{"s", 1}, 1, nil),
	} {
		if !errors.Is(err, transparency.ErrInvalid) {
			t.Errorf("%s: error = %v, want ErrInvalid", what, err)
		}
	}
	if _, err := none.Position(ctx, "s"); !errors.Is(err, transparency.ErrInvalid) {
		t.Errorf("Position on nil: error = %v, want ErrInvalid", err)
	}
	_ = tx.Rollback()
	for placeholder, want := range map[string]string{
		"":  "UPDATE app.positions SET generation = $1, seq = $2, changed_at = CURRENT_TIMESTAMP WHERE session = $3 AND seq = $4 AND generation <= $5",
		"?": "UPDATE app.positions SET generation = ?, seq = ?, changed_at = CURRENT_TIMESTAMP WHERE session = ? AND seq = ? AND generation <= ?",
	} {
		p := NewSQLPosition(sqlDB, &SQLPositionOptions{Table: "app.positions", Placeholder: placeholder})
		db.queries = nil
		_ = p.Do(ctx, owns{"s", 1}, 2, add(ctx, 1))
		if len(db.queries) == 0 || db.queries[0] != want {
			t.Errorf("placeholder %q: %q, want %q", placeholder, db.queries, want)
		}
	}
}
