interface Watcher<Event> {
  readonly tell: (event: Event) => void;
  /** It is told only of what comes after this revision. */
  readonly from: number;
}

/** Those who watch something, told one after the other. */
export interface Watchers<Event> {
  /** Returns how to stop. */
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
 * Delivers events in their order to all watchers, also when a watcher writes and so causes the next event: that one waits
 * until everybody has heard of the one before.
 */
export interface Delivery {
  /** Does it as soon as all deliveries before are done: now, unless this is called within one. */
  readonly enqueue: (task: () => void) => void;
  /** Does it now, and what it enqueues after it. */
  readonly now: (task: () => void) => void;
}

/** The tasks must not throw. */
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
