interface Watcher<Event> {
  readonly tell: (event: Event) => void;
  /** The watcher receives only events after this revision. */
  readonly from: number;
}

/** Watchers that receive each event one after the other. */
export interface Watchers<Event> {
  /** Returns a function that removes the watcher. */
  readonly add: (watcher: Watcher<Event>) => () => void;
  readonly tell: (event: Event, revision: number) => void;
}

export function createWatchers<Event>(): Watchers<Event> {
  const watchers = new Set<Watcher<Event>>();
  return {
    add: (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    tell: (event, revision) => {
      for (const { tell, from } of watchers) {
        if (revision > from) tell(event);
      }
    },
  };
}

/**
 * Delivers events in order to all watchers. If a watcher writes and so causes another event, that event waits until
 * every watcher has received the current one.
 */
export interface Delivery {
  /** Runs the task after all pending deliveries: immediately, unless called during one. */
  readonly enqueue: (task: () => void) => void;
  /** Runs the task immediately, then the tasks that it enqueues. */
  readonly now: (task: () => void) => void;
}

/** Tasks must not throw. */
export function createDelivery(): Delivery {
  const waiting: (() => void)[] = [];
  let busy = false;

  const now = (task: () => void) => {
    if (busy) {
      task();
      return;
    }
    busy = true;
    try {
      task();
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) next();
    } finally {
      busy = false;
    }
  };
  return {
    now,
    enqueue: (task) => {
      if (busy) waiting.push(task);
      else now(task);
    },
  };
}
