/** The order in which waiting Events are written: Warnings first, and namespaces in turn. */

interface Note {
  readonly regarding: { readonly namespace?: string | undefined };
  readonly type: 'Normal' | 'Warning';
}

interface WaitingEvent<N> {
  readonly note: N;
  times: number;
}

/** More waiting Events tell a reader nothing more. Each takes about a kilobyte. */
const MAX_WAITING = 1_000;

export function createEventQueue<N extends Note>() {
  const lanes = { Warning: createLane<N>(), Normal: createLane<N>() };
  const size = (): number => lanes.Warning.size() + lanes.Normal.size();
  return {
    size,
    /** Adds an Event, or counts it if it waits already. Returns the Event that the queue dropped for lack of space. */
    add: (name: string, note: N): N | undefined => {
      const { namespace = '' } = note.regarding;
      const waiting = lanes[note.type].find(namespace, name);
      if (waiting !== undefined) {
        waiting.times++;
        return undefined;
      }
      lanes[note.type].add(namespace, name, { note, times: 1 });
      if (size() <= MAX_WAITING) return undefined;
      const full = lanes.Normal.size() > 0 ? lanes.Normal : lanes.Warning;
      return full.dropNewest()?.note;
    },
    /** Removes and returns the next Event and its name. */
    next: (): readonly [name: string, event: WaitingEvent<N>] | undefined =>
      lanes.Warning.next() ?? lanes.Normal.next(),
    clear: (): void => {
      lanes.Warning.clear();
      lanes.Normal.clear();
    },
  };
}

/** Events by namespace and name. One namespace with many Events does not delay those of others. */
function createLane<N>() {
  const namespaces = new Map<string, Map<string, WaitingEvent<N>>>();
  let count = 0;
  const remove = (namespace: string, events: Map<string, WaitingEvent<N>>, name: string): void => {
    events.delete(name);
    count--;
    if (events.size === 0) namespaces.delete(namespace);
  };
  return {
    size: () => count,
    find: (namespace: string, name: string) => namespaces.get(namespace)?.get(name),
    add: (namespace: string, name: string, event: WaitingEvent<N>): void => {
      const events = namespaces.get(namespace) ?? new Map<string, WaitingEvent<N>>();
      namespaces.set(namespace, events.set(name, event));
      count++;
    },
    next: (): readonly [string, WaitingEvent<N>] | undefined => {
      const [first] = namespaces;
      if (first === undefined) return undefined;
      const [namespace, events] = first;
      const [next] = events;
      if (next === undefined) return undefined;
      remove(namespace, events, next[0]);
      // The next turn of this namespace comes after one turn of each other namespace.
      if (namespaces.delete(namespace)) namespaces.set(namespace, events);
      return next;
    },
    /** From the namespace with the most waiting Events. */
    dropNewest: (): WaitingEvent<N> | undefined => {
      const [largest] = [...namespaces].sort(([, a], [, b]) => b.size - a.size);
      const newest = largest && [...largest[1]].at(-1);
      if (largest === undefined || newest === undefined) return undefined;
      remove(...largest, newest[0]);
      return newest[1];
    },
    clear: (): void => {
      namespaces.clear();
      count = 0;
    },
  };
}
