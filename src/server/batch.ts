/** Sends an answer. */
export type Send = () => void;

interface Work {
  /** Undefined: the answer is not known yet. It is sent later, outside of the batch. */
  readonly decide: () => Send | undefined;
  /** Called with what `decide` or its answer throws. */
  readonly fail: (error: unknown) => void;
}

/**
 * A larger batch gains nothing more. All decisions at the end of the turn would also hide from the overload protection how
 * long a turn has taken already: it asks when a request arrives.
 */
const MOST = 32;

/** In milliseconds. An answer does not wait longer for the next decisions. */
const SLICE_MS = 1;

/** For work that gains nothing from a batch. */
export const doAtOnce = ({ decide, fail }: Work): void => attempt(() => decide()?.(), fail);

/**
 * Decides what arrives in one turn of the event loop together, and then sends the answers. Between two decisions, nothing
 * reads or writes a socket, because that displaces the code and data of the decisions from the caches of the CPU: for 16
 * connections, decisions one by one cost a quarter more CPU time (`npm run bench:admission`).
 *
 * @param atEndOfTurn calls back when every socket with data has been read
 * @param now in milliseconds
 */
export function createBatch(
  atEndOfTurn: (callback: () => void) => void = setImmediate,
  now = () => performance.now(),
): (work: Work) => void {
  let arrived: Work[] = [];
  const decideAll = (): void => {
    const batch = arrived;
    arrived = [];
    let since = now();
    let sends: Send[] = [];
    for (const { decide, fail } of batch) {
      const send = attempt(decide, fail);
      if (send !== undefined) sends.push(() => attempt(send, fail));
      if (now() - since < SLICE_MS) continue;
      for (const one of sends) one();
      sends = [];
      since = now();
    }
    for (const one of sends) one();
  };
  return (work) => {
    arrived.push(work);
    if (arrived.length === MOST) decideAll();
    else if (arrived.length === 1) atEndOfTurn(decideAll);
  };
}

/** One failure must not affect the other requests of the batch. */
function attempt<Result>(act: () => Result, fail: Work['fail']): Result | undefined {
  try {
    return act();
  } catch (error) {
    fail(error);
    return undefined;
  }
}
