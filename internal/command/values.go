package command

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// duration is a flag for a time: as Go writes it, or a bare number of seconds.
type duration time.Duration

func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = duration(parsed)
	return err
}

func (d *duration) String() string {
	if *d == 0 {
		return "0" // shown by cobra as no default
	}
	return time.Duration(*d).String()
}

// Type is the word for the value in the help text.
func (d *duration) Type() string { return "duration" }

// wait is a flag for how long to wait: a duration or forever.
type wait struct {
	limit   time.Duration
	forever bool
}

func (w *wait) Set(text string) error {
	if text == "forever" {
		*w = wait{forever: true}
		return nil
	}
	limit, err := parseDuration(text)
	*w = wait{limit: limit}
	return err
}

func (w *wait) String() string {
	switch {
	case w.forever:
		return "forever"
	case w.limit == 0:
		return "" // not a default worth showing
	default:
		return w.limit.String()
	}
}

// Type is the word for the value in the help text.
func (w *wait) Type() string { return "duration|forever" }

// parseDuration reads a time that is not negative.
func parseDuration(text string) (time.Duration, error) {
	if strings.Trim(text, "0123456789.") == "" {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, errors.New("write a time as 30s, 1m30s or 500ms; a bare number is seconds")
	case d < 0:
		return 0, errors.New("a time can't be negative")
	}
	return d, nil
}

// quote makes a text safe to be typed into a shell as one word.
func quote(text string) string {
	for _, r := range text {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%", r) {
			return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		}
	}
	if text == "" {
		return "''"
	}
	return text
}

// clean makes a text that came from a store safe to be written to a terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// isTerminal says whether a person may be at the other end of the file.
func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil
}
