import type { StoredEvent } from './stored.ts';

/** The latest events of one place, oldest first. */
export interface History {
  readonly push: (event: StoredEvent) => void;
  /** Every event after `revision` is known if this is not above it: the revision of the last event forgotten. */
  readonly forgotten: () => number;
  /** The events after `revision`, which must not be before `forgotten()`. */
  readonly after: (revision: number) => readonly StoredEvent[];
}

/** Keeps at least `limit` events and at most a quarter more, so that forgetting costs little for each. */
export function createHistory(limit: number, firstRevision: number): History {
  const events: StoredEvent[] = [];
  let forgotten = firstRevision;
  return {
    push: (event) => {
      events.push(event);
      if (events.length <= limit * 1.25) return;
      const dropped = events.splice(0, events.length - limit);
      forgotten = dropped.at(-1)?.revision ?? forgotten;
    },
    forgotten: () => forgotten,
    after: (revision) => {
      // Those who page or resume mostly ask for what is recent, hence from the end.
      const last = events.findLastIndex((event) => event.revision <= revision);
      return events.slice(last + 1);
    },
  };
}
