// Package failure hides that what is called sometimes fails, where that can be
// hidden.
package failure
