package sqlitestore

// Format is the number of the format that this version writes, which the file
// keeps in its user_version. A file with a larger one is refused.
const Format = schemaVersion

// CheckPlace returns an error that matches driver.ErrMisconfigured if a directory
// is on a file system that several machines might share, on which Open refuses a
// file. It is known on Linux only.
func CheckPlace(dir string) error { return checkFileSystem(dir) }
