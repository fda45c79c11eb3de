package relocation

// outbox is what this side sent and the other has not acknowledged, in order:
// the messages acked+1 to last, of which those up to written have been on a
// wire.
type outbox struct {
	ring    []outMessage // a power of two long
	head    int          // of the message acked+1
	acked   uint64
	last    uint64
	written uint64
	bytes   int
}

type outMessage struct {
	data   []byte
	ackNow bool // wants to be acknowledged at once
}

// ringKept is how much of an empty ring is kept.
const ringKept = 64

func (b *outbox) count() int { return int(b.last - b.acked) } //nolint:gosec // as many as are in memory

// at returns the message seq, which is there.
func (b *outbox) at(seq uint64) *outMessage {
	return &b.ring[(b.head+int(seq-b.acked-1))&(len(b.ring)-1)] //nolint:gosec // less than count
}

// add appends a message, and keeps data.
func (b *outbox) add(data []byte, ackNow bool) {
	n := b.count()
	if n == len(b.ring) {
		b.grow()
	}
	b.last++
	b.bytes += len(data)
	*b.at(b.last) = outMessage{data, ackNow}
}

func (b *outbox) grow() {
	ring := make([]outMessage, max(2*len(b.ring), 8))
	n := copy(ring, b.ring[b.head:])
	copy(ring[n:], b.ring[:b.head])
	b.ring, b.head = ring, 0
}

// ack drops what is acknowledged up to seq, which is not above last.
func (b *outbox) ack(seq uint64) {
	for b.acked < seq {
		m := &b.ring[b.head]
		b.bytes -= len(m.data)
		*m = outMessage{}
		b.head = (b.head + 1) & (len(b.ring) - 1)
		b.acked++
	}
	if b.acked == b.last && len(b.ring) > ringKept {
		b.ring, b.head = nil, 0
	}
}

// inbox is what came from the other side: received is the last message that
// came, given the last that Receive returned, and handled the last of which
// the application is done.
type inbox struct {
	queue    fifo[Message] // given+1 to received
	sizes    fifo[int]     // of handled+1 to given
	received uint64
	given    uint64
	handled  uint64
	bytes    int    // of handled+1 to received
	reported uint64 // what a RESUME said was received: never less after that
	urgent   uint64 // the last message that wants to be acknowledged at once
}

func (b *inbox) add(m Message) {
	b.queue.push(m)
	b.received = m.Seq
	b.bytes += len(m.Data)
}

func (b *inbox) next() (Message, bool) {
	if b.queue.empty() {
		return Message{}, false
	}
	m := b.queue.pop()
	b.given = m.Seq
	b.sizes.push(len(m.Data))
	return m, true
}

// handle notes that the messages up to seq are done with, as far as they were
// given, and returns how many are new and how large they are.
func (b *inbox) handle(seq uint64) (messages, bytes int) {
	for b.handled < min(seq, b.given) {
		bytes += b.sizes.pop()
		messages++
		b.handled++
	}
	b.bytes -= bytes
	return messages, bytes
}

// report returns what a RESUME says is received. It is what there is, so that
// nothing comes twice; but when more than half a window waits for the
// application, it is what is handled, and the rest will come again and be
// dropped. For the server begins a window there, and the inbox is not to grow
// with every resume. It never goes back, for the server may keep nothing below
// what it was told.
func (b *inbox) report(window int) uint64 {
	seq := b.received
	if b.bytes > window/2 {
		seq = max(b.handled, b.reported)
	}
	b.reported = seq
	return seq
}

// fifo is a queue that uses its room again.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) empty() bool { return q.head == len(q.items) }

func (q *fifo[T]) push(item T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

// pop requires that the queue is not empty.
func (q *fifo[T]) pop() T {
	var zero T
	item := q.items[q.head]
	q.items[q.head] = zero
	if q.head++; q.empty() {
		if q.items, q.head = q.items[:0], 0; cap(q.items) > ringKept {
			q.items = nil
		}
	}
	return item
}
