/** What every controller has in common. A reconcile handles a key, reads the world, and ends in one of three ways. */

/** A thrown error is the third way: the key comes back after a back-off. */
export type ReconcileResult =
  { readonly kind: 'await-change' | 'gone' } | { readonly kind: 'requeue'; readonly at: Date };

export type Reconcile = (key: string, signal: AbortSignal) => Promise<ReconcileResult>;

/** Whatever changes this key next comes as an event. */
export const AWAIT_CHANGE: ReconcileResult = { kind: 'await-change' };

/**
 * There is no such object, or it asks for nothing. Also what an earlier reconcile wanted to be done later is over: the dates of objects that come and go
 * would pile up until then, which may be in months.
 */
export const GONE: ReconcileResult = { kind: 'gone' };

export function requeueIn(ms: number, now: Date): ReconcileResult {
  return { kind: 'requeue', at: new Date(now.getTime() + ms) };
}

/** The part of pino that controllers use. `info` when the cluster was changed, `debug` for the rest. */
export interface Log {
  readonly debug: (fields: object, message: string) => void;
  readonly info: (fields: object, message: string) => void;
  readonly warn: (fields: object, message: string) => void;
}

/** Tells the people who look at an object what was done about it. Never throws. */
export type RecordEvent = (event: {
  readonly regarding: {
    readonly apiVersion: string;
    readonly kind: string;
    readonly namespace?: string;
    readonly name: string;
    readonly uid?: string;
  };
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}) => void;
