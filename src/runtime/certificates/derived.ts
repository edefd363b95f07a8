/** Controllers of something that is derived from the authority. */
export interface Derived {
  /** Looks at everything again: the authority has changed. */
  readonly resync: () => void;
  readonly stopped: Promise<unknown>;
}
