// Package access hides how configuration is reached: a program asks a
// [ConfigRepository] for a document by key, and does not see whether a file, a
// directory, an HTTP server, Redis or memory answers.
package access
