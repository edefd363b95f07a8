/** The package comes without types. */
declare module 'json-merge-patch' {
  /** Changes `target`, or makes a new value; returns the result. */
  export function apply(target: unknown, patch: unknown): unknown;
}
