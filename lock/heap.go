package lock

// A heaped thing stands in a heap, first the one that is before all others,
// and knows where.
type heaped[T any] interface {
	comparable
	before(T) bool
	place() *int
}

// heap is a binary heap whose members can be moved and taken out.
type heap[T heaped[T]] []T

func (h *heap[T]) push(x T) {
	*x.place() = len(*h)
	*h = append(*h, x)
	h.up(len(*h) - 1)
}

// take removes x if it is there.
func (h *heap[T]) take(x T) {
	i, last := *x.place(), len(*h)-1
	if i < 0 {
		return
	}
	if i != last {
		h.swap(i, last)
	}
	var zero T
	(*h)[last] = zero
	*h = (*h)[:last]
	*x.place() = -1
	if i != last {
		h.move((*h)[i])
	}
	if last == 0 && cap(*h) > 1024 {
		*h = nil // as keyed does
	}
}

// move restores the order after x has changed.
func (h *heap[T]) move(x T) {
	if !h.down(*x.place()) {
		h.up(*x.place())
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !(*h)[i].before((*h)[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[T]) down(i int) (moved bool) {
	for {
		first := 2*i + 1
		if first >= len(*h) {
			return moved
		}
		if second := first + 1; second < len(*h) && (*h)[second].before((*h)[first]) {
			first = second
		}
		if !(*h)[first].before((*h)[i]) {
			return moved
		}
		h.swap(i, first)
		i, moved = first, true
	}
}

func (h *heap[T]) swap(i, j int) {
	s := *h
	s[i], s[j] = s[j], s[i]
	*s[i].place(), *s[j].place() = i, j
}
