package memstore

// Subscribe implements driver.Notifier. The subscription is active at once.
func (s *Store) Subscribe(name string) (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers[name] == nil {
		s.subscribers[name] = make(map[chan struct{}]bool)
	}
	s.subscribers[name][c] = true
	return c, func() { s.unsubscribe(name, c) }
}

func (s *Store) unsubscribe(name string, c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers[name], c)
	if len(s.subscribers[name]) == 0 {
		delete(s.subscribers, name)
	}
}

// notify wakes everybody who waits for the name. The caller holds the mutex.
func (s *Store) notify(name string) {
	for c := range s.subscribers[name] {
		select {
		case c <- struct{}{}:
		default: // not read yet: one value says as much as two
		}
	}
}
